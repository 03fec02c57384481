"""Reads the code: its optimizers, its calls of `compile`, `fit` and `evaluate`; refuses what cannot be rewritten."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.calls import ARGUMENTS, MethodCall, by_name
from jupyter_ddl.explain.names import IN_PLACE, Names
from jupyter_ddl.explain.origins import Origins
from jupyter_ddl.modernise.names import code_of, found, keyword, optimizer_class, rate_argument

if TYPE_CHECKING:
    from libcst.metadata import MetadataWrapper

# Modules of ours and Horovod's that distribute a program.
_DISTRIBUTES = re.compile(r"(horovod|jupyter_ddl\.(keras|training|data)|byteps)\b")
_SETS_RATE = re.compile(r"\.learning_rate(\.assign\(|\s*[-+*/]?=[^=])|\.(learning_rate|lr)\b.*set_value")
_RANDOM_LAYER = re.compile(r"Dropout|Random|Gaussian|dropout=|applications\.")
_NORMALISES = re.compile(r"BatchNorm|applications\.")
_BUILDS_MODEL = re.compile(r"\bSequential\(|\bModel\(|\.models\.")
# Libraries whose objects have methods of these names and are no Keras models.
_OTHER_LIBRARIES = {
    *("catboost", "category_encoders", "gensim", "hmmlearn", "imblearn", "lightgbm", "lifelines", "nltk", "numpy"),
    *("pandas", "prophet", "pytorch_lightning", "regex", "scipy", "sklearn", "sksurv", "spacy", "statsmodels", "torch"),
    *("umap", "xgboost", *sys.stdlib_module_names),
}
# Rules and remedies.
ONE_OPTIMIZER = (
    "--auto distributes the one optimizer of compile: which data a second one is for, it cannot know.",
    "Write the program with hvd.DistributedGradientTape.",
)
_LOOP = (
    (
        "--explain writes out what trains with fit; a loop of the program's own must say itself which data and "
        "which gradients are whose."
    ),
    (
        "Give each rank its part of the data, and write hvd.DistributedGradientTape(tape); or put the step in a "
        "train_step of the model, and call fit."
    ),
)
_STRATEGY = ("--auto distributes a model that is not distributed yet.", "Drop the strategy and its scope.")
_STATEFUL = (
    "A stateful layer keeps a state for each sample of a batch, which must come to the same place each time.",
    "Pass stateful=False, or divide the sequences among the ranks yourself.",
)


@dataclass(frozen=True, eq=False)
class OptimizerCall:
    """A call that makes an optimizer: its class, and what is passed as its learning rate."""

    node: cst.Call
    name: str
    rate: cst.Arg | None


class Reading(Names):
    """Reads the program once.

    Attributes:
        code: the program's text.
        origins: what its values come from.
        methods: the calls of each method of Keras's.
        compiles, fits: those of `compile` and `fit`.
        optimizers: the calls that make optimizers.

    Raises:
        InvalidInput: it does what cannot be written out, nothing is trained, or nothing is compiled.
    """

    def __init__(self, wrapper: MetadataWrapper) -> None:
        super().__init__(wrapper)
        self.code = wrapper.module.code
        self.origins = Origins(self)
        self.methods: dict[str, list[MethodCall]] = {name: [] for name in ARGUMENTS}
        self.compiles, self.fits = self.methods["compile"], self.methods["fit"]
        self.optimizers: list[OptimizerCall] = []
        self._refuse_distributed()
        for call in self.calls:
            self._read(call)
        if not self.fits:
            raise InvalidInput(
                "--explain writes out a program that trains with fit.",
                "code without a call of fit",
                "Pass the code that compiles the model and calls fit.",
            )
        if not self.compiles:
            raise InvalidInput(
                "--explain must see which optimizer it is.",
                f"{self.fits[0].place}, and no compile",
                f"Put compile and fit in one cell. {IN_PLACE}",
            )

    @property
    def sets_rate(self) -> bool:
        """Whether the program changes the learning rate while it trains, by a callback or by itself."""
        return bool(_SETS_RATE.search(self.code)) or "LearningRateScheduler" in self.code or "min_lr" in self.code

    @property
    def draws_in_layers(self) -> bool:
        """Whether layers may draw random numbers: the code names such a layer, or does not show the model."""
        return bool(_RANDOM_LAYER.search(self.code)) or not _BUILDS_MODEL.search(self.code)

    @property
    def normalises(self) -> bool:
        """Whether layers may keep moving averages, likewise."""
        return bool(_NORMALISES.search(self.code)) or not _BUILDS_MODEL.search(self.code)

    @property
    def sets_seed(self) -> bool:
        """Whether it sets the seeds of Python, NumPy and Keras."""
        return "set_random_seed(" in self.code

    def _read(self, node: cst.Call) -> None:
        meaning = self.meaning(node.func)
        self._refuse_loop(node, meaning)
        if name := optimizer_class(meaning):
            self.optimizers.append(OptimizerCall(node, name, rate_argument(node)))
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in ARGUMENTS:
            self._add(node, node.func)

    def _add(self, node: cst.Call, func: cst.Attribute) -> None:
        method = func.attr.value
        if self.is_foreign(func.value):
            return
        arguments = by_name(node, method)
        if arguments is None:
            rule, remedy = f"--explain must see what {method} is given.", "Write the arguments out in the call."
            raise self.refusal(rule, node, f"{remedy} {IN_PLACE}")
        if others := [name for name in arguments if method == "compile" and name.endswith("_optimizer")]:
            rule, remedy = ONE_OPTIMIZER
            raise self.refusal(rule, node, remedy, what=f"{code_of(func)}({others[0]}=...)")
        may_repeat = any(isinstance(each, (cst.For, cst.While, cst.FunctionDef)) for each in self.around(node))
        call = MethodCall(node, method, func.value, arguments, self.line(node), may_repeat)
        self.methods[method].append(call)

    def is_foreign(self, receiver: cst.BaseExpression) -> bool:
        """Return whether an object is another library's (scikit-learn's have fit, too), or Keras's own method."""
        if isinstance(receiver, cst.Call):
            if code_of(receiver) == "super()":
                return True
            made = self.definition(receiver.func, cst.ClassDef)
            if made is not None:
                # A class of the code's own, such as one that holds a model: what it calls is looked at itself.
                return not self.may_be_model(made)
            return self._is_of_library(receiver.func)
        if isinstance(receiver, cst.Name):
            if self.is_imported(receiver):
                return self._is_of_library(receiver)
            given = self.assigned(receiver) or []
            return bool(given) and all(isinstance(v, cst.Call) and self.is_foreign(v) for v, _ in given)
        return False

    def may_be_model(self, made: cst.ClassDef) -> bool:
        """Return whether a class of the code is a Keras model, or has a base that is made elsewhere."""
        for base in made.bases:
            own = self.definition(base.value, cst.ClassDef)
            if own is None and code_of(base.value) != "object" and not self._is_of_library(base.value):
                return True
            if own is not None and own is not made and self.may_be_model(own):
                return True
        return False

    def _is_of_library(self, node: cst.BaseExpression) -> bool:
        """Return whether a name is of a library that is known to make no Keras models."""
        root = self.meaning(node).partition(".")[0]
        return root in _OTHER_LIBRARIES and self.is_imported(node)

    def _refuse_distributed(self) -> None:
        lines = found(self.module, cst.SimpleStatementLine)
        for node in (statement for line in lines for statement in line.body):
            if not isinstance(node, (cst.Import, cst.ImportFrom)) or isinstance(node.names, cst.ImportStar):
                continue
            module = f"{code_of(node.module)}." if isinstance(node, cst.ImportFrom) and node.module else ""
            if any(_DISTRIBUTES.match(f"{module}{code_of(alias.name)}") for alias in node.names):
                raise self.refusal(
                    "--explain writes Horovod into a program that has none.",
                    node,
                    "Run it without --auto: it says itself how it is distributed.",
                )

    def _refuse_loop(self, node: cst.Call, meaning: str) -> None:
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        stateful = keyword(node, "stateful")
        refused = {
            _LOOP: meaning == "tensorflow.GradientTape" and not self._is_in_train_step(node),
            ("--explain writes out what trains with fit.", IN_PLACE): method in ("train_on_batch", "test_on_batch"),
            _STRATEGY: meaning.startswith("tensorflow.distribute.") and meaning.endswith("Strategy"),
            _STATEFUL: stateful is not None and code_of(stateful.value) == "True",
        }
        for (rule, remedy), is_there in refused.items():
            if is_there:
                raise self.refusal(rule, node, remedy, what=f"{code_of(node.func)}(...)")

    def _is_in_train_step(self, node: cst.CSTNode) -> bool:
        return any(isinstance(each, cst.FunctionDef) and each.name.value == "train_step" for each in self.around(node))
