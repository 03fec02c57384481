"""Reads the code: its optimizers, its calls of `compile`, `fit` and `evaluate`; refuses what cannot be rewritten."""

# ruff: noqa: D102, N802 (libcst's hooks)

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import optimizers
from jupyter_ddl.explain.calls import ARGUMENTS, MethodCall, by_name
from jupyter_ddl.explain.names import Names
from jupyter_ddl.modernise.names import code_of, keyword

if TYPE_CHECKING:
    from collections.abc import Iterable

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
_IN_PLACE = "Run it with --auto, without --explain: nothing needs to be written out for that."


@dataclass(frozen=True, eq=False)
class OptimizerCall:
    """A call that makes an optimizer: its class, and what is passed as its learning rate."""

    node: cst.Call
    name: str
    rate: cst.Arg | None


class Reading(Names):
    """Visits the program once.

    Raises:
        InvalidInput: it does what cannot be written out.
    """

    def __init__(self, wrapper: MetadataWrapper) -> None:
        super().__init__(wrapper)
        self.code = wrapper.module.code
        self.compiles: list[MethodCall] = []
        self.fits: list[MethodCall] = []
        self.evaluations: list[MethodCall] = []
        self.predictions: list[MethodCall] = []
        self.optimizers: list[OptimizerCall] = []
        self._functions: list[str] = []
        self._loops = 0

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

    def visit_Import(self, node: cst.Import) -> None:
        self._refuse_distributed(node, [code_of(alias.name) for alias in node.names])

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = code_of(node.module) if node.module is not None else ""
        names = node.names if not isinstance(node.names, cst.ImportStar) else ()
        self._refuse_distributed(node, [f"{module}.{code_of(alias.name)}" for alias in names])

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._functions.append(node.name.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:  # noqa: ARG002
        self._functions.pop()
        return updated_node

    def visit_For(self, node: cst.For) -> None:  # noqa: ARG002 (libcst's signature)
        self._loops += 1

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:  # noqa: ARG002
        self._loops -= 1
        return updated_node

    def visit_While(self, node: cst.While) -> None:  # noqa: ARG002
        self._loops += 1

    def leave_While(self, original_node: cst.While, updated_node: cst.While) -> cst.While:  # noqa: ARG002
        self._loops -= 1
        return updated_node

    def visit_Call(self, node: cst.Call) -> None:
        meaning = self.meaning(node.func)
        self._refuse_loop(node, meaning)
        if name := optimizers.class_of(meaning):
            first = node.args[0] if node.args and node.args[0].keyword is None and not node.args[0].star else None
            self.optimizers.append(OptimizerCall(node, name, keyword(node, "learning_rate", "lr") or first))
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in ARGUMENTS:
            self._add(node, node.func)

    def check(self) -> None:
        """Look at the whole, after the visit.

        Raises:
            InvalidInput: nothing is trained, or nothing is compiled.
        """
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
                f"Put compile and fit in one cell. {_IN_PLACE}",
            )

    def _add(self, node: cst.Call, func: cst.Attribute) -> None:
        method = func.attr.value
        if self.is_foreign(func.value):
            return
        arguments = by_name(node, method)
        if arguments is None:
            raise InvalidInput(
                f"--explain must see what {method} is given.",
                f"line {self.line(node)}: {code_of(node)}",
                f"Write the arguments out in the call. {_IN_PLACE}",
            )
        if others := [name for name in arguments if method == "compile" and name.endswith("_optimizer")]:
            raise InvalidInput(
                "--auto distributes the one optimizer of compile: which data a second one is for, it cannot know.",
                f"line {self.line(node)}: {code_of(func)}({others[0]}=...)",
                "Write the program with hvd.DistributedGradientTape.",
            )
        call = MethodCall(node, method, func.value, arguments, self.line(node), bool(self._loops or self._functions))
        lists = {"compile": self.compiles, "fit": self.fits, "evaluate": self.evaluations, "predict": self.predictions}
        lists[method].append(call)

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

    def _refuse_distributed(self, node: cst.CSTNode, modules: Iterable[str]) -> None:
        if any(_DISTRIBUTES.match(module) for module in modules):
            raise InvalidInput(
                "--explain writes Horovod into a program that has none.",
                f"line {self.line(node)}: {code_of(node)}",
                "Run it without --auto: it says itself how it is distributed.",
            )

    def _refuse_loop(self, node: cst.Call, meaning: str) -> None:
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        place = f"line {self.line(node)}: {code_of(node.func)}(...)"
        if meaning == "tensorflow.GradientTape" and "train_step" not in self._functions:
            raise InvalidInput(
                "--explain writes out what trains with fit; a loop of the program's own must say itself which data and "
                "which gradients are whose.",
                place,
                "Give each rank its part of the data, and write hvd.DistributedGradientTape(tape); or put the step in "
                "a train_step of the model, and call fit.",
            )
        if method in ("train_on_batch", "test_on_batch"):
            raise InvalidInput("--explain writes out what trains with fit.", place, _IN_PLACE)
        if meaning.startswith("tensorflow.distribute.") and meaning.endswith("Strategy"):
            raise InvalidInput(
                "--auto distributes a model that is not distributed yet.", place, "Drop the strategy and its scope."
            )
        if (stateful := keyword(node, "stateful")) is not None and code_of(stateful.value) == "True":
            raise InvalidInput(
                "A stateful layer keeps a state for each sample of a batch, which must come to the same place each "
                "time.",
                place,
                "Pass stateful=False, or divide the sequences among the ranks yourself.",
            )
