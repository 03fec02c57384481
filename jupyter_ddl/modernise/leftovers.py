"""What a rewritten program still has of old spellings: where, and what is written today."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from jupyter_ddl.modernise.codemods.callbacks import RATE_CALLBACKS, lacks_initial_lr
from jupyter_ddl.modernise.names import Codemod, keyword, optimizer_class
from jupyter_ddl.protocol.old_spellings import ROWS
from jupyter_ddl.protocol.sklearn_names import H2O4GPU_LEFT, PAI4SK_LEFT

_TODAY = {row.name: row.today for row in ROWS}
# Canonical name of what is called or imported -> the row that tells what is written today.
_CALLS = (
    (re.compile(r"tensorflow\.ConfigProto"), "ConfigProto"),
    (re.compile(r"tensorflow\.(?:Interactive)?Session"), "Session"),
    (
        re.compile(r"tensorflow\.(?:set_random_seed|placeholder|global_variables_initializer|logging\..*)"),
        "TensorFlow 1 names",
    ),
    (re.compile(r"keras\.backend\.(?:tensorflow_backend\.)?set_session"), "set_session"),
    (re.compile(r"keras\.backend\.(?:[gs]et_value)"), "K.set_value"),
    (re.compile(r"keras\.backend\.(?:set_)?learning_phase"), "learning_phase"),
    (re.compile(r"keras\.backend\.function"), "K.function"),
    (re.compile(r"keras\.backend\.(?:set_)?image_dim_ordering"), "image_dim_ordering"),
    (
        re.compile(
            r"keras\.backend\.(?!image_data_format|set_image_data_format|clear_session|floatx|set_floatx|epsilon|"
            r"set_epsilon|backend|get_uid|is_keras_tensor|is_float_dtype|is_int_dtype|standardize_dtype|result_type)\w+"
        ),
        "backend functions",
    ),
    (re.compile(r"keras\.layers\.CuDNN(?:LSTM|GRU)"), "CuDNNLSTM"),
    (re.compile(r"keras\.utils\.np_utils\..*"), "keras.utils.np_utils"),
)
_METHODS = {
    "predict_classes": "predict_classes",
    "predict_proba": "predict_classes",
    "fit_generator": "samples_per_epoch",
    "reset_states": "reset_states",
}
_OPTIMIZER_METHODS = {"get_weights": "optimizer.get_weights", "minimize": "optimizer.minimize"}
_WARM_UP = (
    "LearningRateWarmupCallback and LearningRateScheduleCallback take initial_lr: pass the learning rate that the "
    "optimizer was made with."
)
_AVERAGE = "hvd.allreduce(x, average=True) is written hvd.allreduce(x, op=hvd.Average)."


@dataclass(frozen=True)
class Leftover:
    """An old spelling that was not rewritten.

    Attributes:
        line: of the text that was looked at, from 1.
        today: the sentence that tells what is written today.
    """

    line: int
    today: str


class _Finder(Codemod):
    METADATA_DEPENDENCIES = (*Codemod.METADATA_DEPENDENCIES, PositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Leftover] = []

    def visit_Call(self, node: cst.Call) -> None:
        meaning = self.meaning(node.func)
        for pattern, row in _CALLS:
            if pattern.fullmatch(meaning):
                self._add(node, _TODAY[row])
                return
        self._look_at_arguments(node, meaning)
        if isinstance(node.func, cst.Attribute):
            method = node.func.attr.value
            if method in _METHODS:
                self._add(node, _TODAY[_METHODS[method]])
            elif method in _OPTIMIZER_METHODS and self.is_optimizer(node.func.value) and "compat" not in meaning:
                self._add(node, _TODAY[_OPTIMIZER_METHODS[method]])

    def _look_at_arguments(self, node: cst.Call, meaning: str) -> None:
        if optimizer_class(meaning) and keyword(node, "decay"):
            self._add(node, _TODAY["decay"])
        elif meaning == "keras.callbacks.ModelCheckpoint" and keyword(node, "period"):
            self._add(node, _TODAY["period"])
        elif meaning in ("hvd.allreduce", "hvd.grouped_allreduce") and keyword(node, "average"):
            self._add(node, _AVERAGE)
        elif meaning in RATE_CALLBACKS and lacks_initial_lr(node):
            self._add(node, _WARM_UP)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        code = cst.Module([]).code_for_node(node)
        if re.match(r"from (?:tensorflow\.)?keras\.(?:engine|layers\.(?:local|legacy))\b", code):
            self._add(node, _TODAY["keras.engine"])
        elif re.match(r"from (?:tensorflow\.)?keras\.utils import .*\bnp_utils\b", code):
            self._add(node, _TODAY["keras.utils.np_utils"])
        elif re.match(r"from h2o4gpu\b", code):
            self._add(node, H2O4GPU_LEFT)
        elif re.match(r"from pai4sk\b", code):
            self._add(node, PAI4SK_LEFT)

    def visit_Import(self, node: cst.Import) -> None:
        code = cst.Module([]).code_for_node(node)
        if re.match(r"import h2o4gpu\b", code):
            self._add(node, H2O4GPU_LEFT)
        elif re.match(r"import pai4sk\b", code):
            self._add(node, PAI4SK_LEFT)

    def _add(self, node: cst.CSTNode, today: str) -> None:
        position = self.get_metadata(PositionProvider, node)
        self.found.append(Leftover(position.start.line, today))


def leftovers(program: MetadataWrapper) -> list[Leftover]:
    """Return what a program still has of old spellings, in its order, each line and sentence once."""
    finder = _Finder()
    program.visit(finder)
    return sorted(dict.fromkeys(finder.found), key=lambda leftover: leftover.line)
