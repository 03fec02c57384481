"""Finds the models that the code trains, and checks that each exchanges gradients: each `fit` needs a `compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst
from libcst.metadata import ParentNodeProvider

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.origins import Origins
from jupyter_ddl.modernise.names import code_of, keyword

if TYPE_CHECKING:
    from jupyter_ddl.explain.calls import MethodCall
    from jupyter_ddl.explain.origins import Origin
    from jupyter_ddl.explain.reading import Reading

_SEE_OPTIMIZER = "--explain must see which optimizer it is."
_IN_PLACE = "Run it with --auto, without --explain: nothing needs to be written out for that."
_LOADS = ("keras.models.load_model", "keras.saving.load_model")
_RUNS_CODE = ("exec", "runpy.run_path", "runpy.run_module", "builtins.exec")


def check(reading: Reading) -> None:
    """Check that each model that is trained gets its optimizer in a call of `compile` that can be rewritten.

    Raises:
        InvalidInput: of one it cannot be seen.
    """
    origins = Origins(reading)
    for made in origins.classes:
        _check_class(made, reading, is_model=reading.may_be_model(made))
    for call in reading.compiles:
        _check_own_compile(call, origins)
    reading.wrapper.module.visit(_Elsewhere(reading, origins))
    for fit in reading.fits:
        _check_fit(fit, reading, origins)


def methods_of(made: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """Return a class's methods by name."""
    return {part.name.value: part for part in made.body.body if isinstance(part, cst.FunctionDef)}


def _check_class(made: cst.ClassDef, reading: Reading, *, is_model: bool) -> None:
    own = methods_of(made)
    if is_model and "fit" in own:
        raise InvalidInput(
            "--explain writes out what trains with Keras's own fit.",
            f"line {reading.line(made)}: class {made.name.value} with a fit of its own",
            _IN_PLACE,
        )
    if is_model and "compile" in own and not _hands_on_optimizer(own["compile"]):
        raise InvalidInput(
            _SEE_OPTIMIZER,
            f"line {reading.line(made)}: class {made.name.value} with a compile of its own",
            f"Have it hand its argument optimizer to super().compile. {_IN_PLACE}",
        )


def _hands_on_optimizer(function: cst.FunctionDef) -> bool:
    """Return whether a `compile` of a class's own gives its argument `optimizer` to Keras's, unchanged."""
    finder = _SuperCompile()
    function.body.visit(finder)
    named = [param.name.value for param in (*function.params.params, *function.params.kwonly_params)]
    if "optimizer" not in named:
        # In its **kwargs, which it must hand on as they are, it may be anything.
        return False
    if finder.sets_optimizer or len(finder.calls) != 1:
        return False
    call = finder.calls[0]
    passed = keyword(call, "optimizer")
    if passed is None and call.args and call.args[0].keyword is None and not call.args[0].star:
        passed = call.args[0]
    return passed is not None and code_of(passed.value) == "optimizer"


def _check_own_compile(call: MethodCall, origins: Origins) -> None:
    """Raise where a class with a `compile` of its own is not given its optimizer by name, or first.

    Raises:
        InvalidInput: it is not.
    """
    for origin in origins.of(call.receiver):
        own = methods_of(origin).get("compile") if isinstance(origin, cst.ClassDef) else None
        if own is None:
            continue
        first = [param.name.value for param in own.params.params][1:2]
        given = call.arguments.get("optimizer")
        if given is None or (given.keyword is None and first != ["optimizer"]):
            raise InvalidInput(
                _SEE_OPTIMIZER,
                f"{call.place} of a class with a compile of its own",
                f"Pass optimizer=... in this call. {_IN_PLACE}",
            )


def _check_fit(fit: MethodCall, reading: Reading, origins: Origins) -> None:
    compiled: set[Origin] = set()
    for call in reading.compiles:
        compiled |= origins.of(call.receiver, before=call.line)
    for origin in origins.of(fit.receiver, before=fit.line):
        if is_made_elsewhere(origin, reading):
            raise InvalidInput(
                "--explain must see the class of each model that is trained: it may have a compile or fit of its own.",
                f"{fit.place} of what {_made_by(origin)} makes",
                f"Put its code here. {_IN_PLACE}",
            )
        if origin in compiled or _is_loaded(origin, reading):
            continue
        raise InvalidInput(
            "--explain must see where the model of each fit is compiled.",
            f"{fit.place}, and no compile of that model",
            f"Put the compile of this model into this code. {_IN_PLACE}",
        )


def is_made_elsewhere(origin: Any, reading: Reading) -> bool:
    """Return whether a model is made by what the code imports, from others than Keras, or is of such a class."""
    if isinstance(origin, cst.Call):
        return _is_imported(origin.func, reading)
    if isinstance(origin, cst.ClassDef):
        own = [reading.definition(base.value, cst.ClassDef) for base in origin.bases]
        return any(_is_imported(base.value, reading) for base in origin.bases) or any(
            is_made_elsewhere(base, reading) for base in own if base is not None and base is not origin
        )
    return False


def _is_imported(node: cst.BaseExpression, reading: Reading) -> bool:
    meaning = reading.meaning(node)
    return reading.is_imported(node) and not meaning.startswith(("keras.", "keras_hub.", "tensorflow."))


def _made_by(origin: Any) -> str:
    return f"class {origin.name.value}" if isinstance(origin, cst.ClassDef) else f"{code_of(origin.func)}(...)"


def _is_loaded(origin: Any, reading: Reading) -> bool:
    """Return whether a model is loaded in a way that is rewritten, with its optimizer."""
    is_load = isinstance(origin, cst.Call) and reading.meaning(origin.func) in _LOADS
    return is_load and keyword(origin, "compile") is None


class _SuperCompile(cst.CSTVisitor):
    """The calls of Keras's own `compile`, and whether anything sets an optimizer."""

    def __init__(self) -> None:
        self.calls: list[cst.Call] = []
        self.sets_optimizer = False

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802 (libcst's hook)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "compile":
            self.calls.append(node)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:  # noqa: N802
        self.sets_optimizer |= code_of(node.target) in ("optimizer", "self.optimizer")


class _Elsewhere(cst.CSTVisitor):
    """Raises for what reaches a model's `compile`, `fit` or optimizer in a way that is not rewritten."""

    def __init__(self, reading: Reading, origins: Origins) -> None:
        self._reading = reading
        self._origins = origins

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:  # noqa: N802 (libcst's hook)
        self._check_target(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:  # noqa: N802
        self._check_target(node.target)

    def _check_target(self, target: cst.BaseExpression) -> None:
        if not isinstance(target, cst.Attribute) or target.attr.value not in ("optimizer", "_optimizer"):
            return
        if self._may_be_model(target.value):
            self._refuse_optimizer(target, f"{code_of(target)} = ...")

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        meaning = self._reading.meaning(node.func)
        if meaning in _RUNS_CODE or code_of(node.func) in _RUNS_CODE:
            raise InvalidInput(
                "--explain must see the code that trains.",
                f"line {self._reading.line(node)}: {code_of(node)}",
                f"Write that code here. {_IN_PLACE}",
            )
        name = code_of(node.func)
        if name in ("setattr", "getattr") and len(node.args) > 1:
            attribute = self._reading.constant(node.args[1].value)
            if attribute == "optimizer" and name == "setattr":
                self._refuse_optimizer(node, code_of(node))
            if attribute in ("compile", "fit"):
                self._refuse_reference(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802
        if node.attr.value not in ("compile", "fit"):
            return
        parent = self._reading.get_metadata(ParentNodeProvider, node, None)
        is_called = isinstance(parent, cst.Call) and parent.func is node
        of_class = self._reading.meaning(node.value).startswith("keras.") or (
            self._reading.definition(node.value, cst.ClassDef) is not None
        )
        if of_class or not (is_called or self._reading.is_foreign(node.value)):
            self._refuse_reference(node)

    def _may_be_model(self, value: cst.BaseExpression) -> bool:
        return any(
            self._reading.may_be_model(origin) if isinstance(origin, cst.ClassDef) else True
            for origin in self._origins.of(value)
        )

    def _refuse_optimizer(self, node: cst.CSTNode, text: str) -> None:
        raise InvalidInput(
            _SEE_OPTIMIZER,
            f"line {self._reading.line(node)}: {text}",
            f"Pass the optimizer to compile. {_IN_PLACE}",
        )

    def _refuse_reference(self, node: cst.CSTNode) -> None:
        raise InvalidInput(
            "--explain must see each call of compile and fit.",
            f"line {self._reading.line(node)}: {code_of(node)}",
            f"Call it as a method of the model. {_IN_PLACE}",
        )
