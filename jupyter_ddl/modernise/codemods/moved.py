"""Modules of Keras that moved: layers, engine, np_utils, preprocessing."""

from __future__ import annotations

import re

import libcst as cst
from libcst.helpers import get_full_name_for_node

from jupyter_ddl.modernise.names import Codemod, found

_LAYERS = (
    r"keras\.layers\.(?:core|normalization|convolutional|pooling|recurrent|embeddings|merge|advanced_activations|noise|"
    r"wrappers)"
)
_MODULES = (
    (re.compile(rf"^(tensorflow\.)?(?:python\.)?{_LAYERS}$"), r"\1keras.layers"),
    (
        re.compile(r"^(tensorflow\.)?(?:python\.)?keras\.utils\.(?:np_utils|generic_utils|data_utils|vis_utils)$"),
        r"\1keras.utils",
    ),
    (re.compile(r"^(tensorflow\.)?(?:python\.)?keras\.callbacks\.callbacks$"), r"\1keras.callbacks"),
    (re.compile(r"^keras\.preprocessing\.image$"), "tensorflow.keras.preprocessing.image"),
)
_ENGINE = re.compile(r"^(tensorflow\.)?(?:python\.)?keras\.engine(?:\.\w+)?$")
_LAYER_NAMES = {"Layer", "Input", "InputSpec", "InputLayer"}
_MODEL_NAMES = {"Model", "Sequential"}
# Still in keras.preprocessing.image; the generators are in tf.keras alone.
_STILL_THERE = {"load_img", "img_to_array", "array_to_img", "save_img"}
_NP_UTILS = re.compile(r"^keras\.utils\.np_utils\.(to_categorical|normalize)$")


class Moved(Codemod):
    """Imports of modules that moved, and `np_utils.to_categorical`."""

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        module = (original_node.module and get_full_name_for_node(original_node.module)) or ""
        if isinstance(original_node.names, cst.ImportStar):
            return updated_node
        names = {alias.evaluated_name for alias in original_node.names}
        target = _target(module, names)
        if target is None:
            return updated_node
        return updated_node.with_changes(module=cst.parse_expression(target))

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        # `from keras.utils import np_utils`
        is_np_utils = original_node.evaluated_name == "np_utils" and original_node.asname is None
        if is_np_utils and self._np_utils == {"to_categorical"}:
            return updated_node.with_changes(name=cst.Name("to_categorical"), asname=None)
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        match = _NP_UTILS.match(self.meaning(original_node))
        if match is None:
            return updated_node
        if isinstance(original_node.value, cst.Attribute):
            return updated_node.with_changes(value=original_node.value.value)  # keras.utils.np_utils.x
        if self._np_utils == {"to_categorical"}:
            return cst.Name("to_categorical")
        return updated_node

    def visit_Module(self, node: cst.Module) -> None:
        # What is asked of np_utils, as in `np_utils.to_categorical`.
        attributes = ((each.value, each.attr.value) for each in found(node, cst.Attribute))
        self._np_utils = {name for of, name in attributes if isinstance(of, cst.Name) and of.value == "np_utils"}


def _target(module: str, names: set[str]) -> str | None:
    """Return where a module's names are imported from today; None where that is the module itself, or not known."""
    if module == "keras.preprocessing.image" and names <= _STILL_THERE:
        return None
    for pattern, target in _MODULES:
        if pattern.match(module):
            return pattern.sub(target, module)
    if match := _ENGINE.match(module):
        prefix = match[1] or ""
        if names <= _LAYER_NAMES:
            return f"{prefix}keras.layers"
        if names <= _MODEL_NAMES:
            return f"{prefix}keras.models"
    return None
