"""Finds the models that the code trains, and checks that each exchanges gradients: each `fit` needs a `compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.data_kinds import method_of
from jupyter_ddl.explain.names import IN_PLACE, methods_of
from jupyter_ddl.modernise.names import code_of, found, keyword

if TYPE_CHECKING:
    from jupyter_ddl.explain.calls import MethodCall
    from jupyter_ddl.explain.origins import Origin
    from jupyter_ddl.explain.reading import Reading

SEE_OPTIMIZER = "--explain must see which optimizer it is."
LOADS = ("keras.models.load_model", "keras.saving.load_model")
_RUNS_CODE = ("exec", "runpy.run_path", "runpy.run_module", "builtins.exec")
_TO_COMPILE = f"Pass the optimizer to compile. {IN_PLACE}"


def check(reading: Reading) -> None:
    """Check that each model that is trained gets its optimizer in a call of `compile` that can be rewritten.

    Raises:
        InvalidInput: of one it cannot be seen.
    """
    for made in reading.classes:
        if reading.may_be_model(made):
            _check_class(made, reading)
    for call in reading.compiles:
        _check_own_compile(call, reading)
    _check_assignments(reading)
    for node in reading.calls:
        _check_call(node, reading)
    for attribute in found(reading.module, cst.Attribute):
        _check_reference(attribute, reading)
    for fit in reading.fits:
        _check_fit(fit, reading)


def _check_class(made: cst.ClassDef, reading: Reading) -> None:
    own, what = methods_of(made), f"class {made.name.value}"
    if "fit" in own:
        rule = "--explain writes out what trains with Keras's own fit."
        raise reading.refusal(rule, made, what=f"{what} with a fit of its own")
    if "compile" in own and not _hands_on_optimizer(own["compile"]):
        remedy = f"Have it hand its argument optimizer to super().compile. {IN_PLACE}"
        raise reading.refusal(SEE_OPTIMIZER, made, remedy, what=f"{what} with a compile of its own")


def _hands_on_optimizer(function: cst.FunctionDef) -> bool:
    """Return whether a `compile` of a class's own gives its argument `optimizer` to Keras's, unchanged."""
    calls = [call for call in found(function.body, cst.Call) if method_of(call) == "compile"]
    targets = [code_of(each.target) for each in found(function.body, cst.AssignTarget)]
    named = [param.name.value for param in (*function.params.params, *function.params.kwonly_params)]
    # In its **kwargs, which it must hand on as they are, it may be anything.
    if "optimizer" not in named or len(calls) != 1 or {"optimizer", "self.optimizer"} & {*targets}:
        return False
    first = next((arg for arg in calls[0].args[:1] if arg.keyword is None and not arg.star), None)
    passed = keyword(calls[0], "optimizer") or first
    return passed is not None and code_of(passed.value) == "optimizer"


def _check_own_compile(call: MethodCall, reading: Reading) -> None:
    """Raise where a class with a `compile` of its own is not given its optimizer by name, or first.

    Raises:
        InvalidInput: it is not.
    """
    for origin in reading.origins.of(call.receiver):
        own = methods_of(origin).get("compile") if isinstance(origin, cst.ClassDef) else None
        if own is None:
            continue
        first = [param.name.value for param in own.params.params][1:2]
        given = call.arguments.get("optimizer")
        if given is None or (given.keyword is None and first != ["optimizer"]):
            what = f"{call.place} of a class with a compile of its own"
            raise InvalidInput(SEE_OPTIMIZER, what, f"Pass optimizer=... in this call. {IN_PLACE}")


def _check_fit(fit: MethodCall, reading: Reading) -> None:
    compiled: set[Origin] = set()
    for call in reading.compiles:
        compiled |= reading.origins.of(call.receiver, before=call.line)
    for origin in reading.origins.of(fit.receiver, before=fit.line):
        if is_made_elsewhere(origin, reading):
            raise InvalidInput(
                "--explain must see the class of each model that is trained: it may have a compile or fit of its own.",
                f"{fit.place} of what {_made_by(origin)} makes",
                f"Put its code here. {IN_PLACE}",
            )
        if origin in compiled or _is_loaded(origin, reading):
            continue
        raise InvalidInput(
            "--explain must see where the model of each fit is compiled.",
            f"{fit.place}, and no compile of that model",
            f"Put the compile of this model into this code. {IN_PLACE}",
        )


def is_made_elsewhere(origin: Any, reading: Reading) -> bool:
    """Return whether a model is made by what the code imports, from others than Keras, or is of such a class."""
    if isinstance(origin, cst.Call):
        return _is_imported(origin.func, reading)
    if not isinstance(origin, cst.ClassDef):
        return False
    bases = [(base.value, reading.definition(base.value, cst.ClassDef)) for base in origin.bases]
    return any(
        _is_imported(base, reading) or (own is not None and own is not origin and is_made_elsewhere(own, reading))
        for base, own in bases
    )


def _is_imported(node: cst.BaseExpression, reading: Reading) -> bool:
    meaning = reading.meaning(node)
    return reading.is_imported(node) and not meaning.startswith(("keras.", "keras_hub.", "tensorflow."))


def _made_by(origin: Any) -> str:
    return f"class {origin.name.value}" if isinstance(origin, cst.ClassDef) else f"{code_of(origin.func)}(...)"


def _is_loaded(origin: Any, reading: Reading) -> bool:
    """Return whether a model is loaded in a way that is rewritten, with its optimizer."""
    is_load = isinstance(origin, cst.Call) and reading.meaning(origin.func) in LOADS
    return is_load and keyword(origin, "compile") is None


def _check_assignments(reading: Reading) -> None:
    for target in found(reading.module, cst.AssignTarget), found(reading.module, cst.AnnAssign):
        for node in (each.target for each in target):
            is_one = isinstance(node, cst.Attribute) and node.attr.value in ("optimizer", "_optimizer")
            if is_one and isinstance(node, cst.Attribute) and _may_be_model(node.value, reading):
                raise reading.refusal(SEE_OPTIMIZER, node, _TO_COMPILE, what=f"{code_of(node)} = ...")


def _may_be_model(value: cst.BaseExpression, reading: Reading) -> bool:
    origins = reading.origins.of(value)
    return any(not isinstance(origin, cst.ClassDef) or reading.may_be_model(origin) for origin in origins)


def _check_call(node: cst.Call, reading: Reading) -> None:
    """Raise for what reaches a model's `compile`, `fit` or optimizer in a way that is not rewritten."""
    name = code_of(node.func)
    if reading.meaning(node.func) in _RUNS_CODE or name in _RUNS_CODE:
        raise reading.refusal("--explain must see the code that trains.", node, f"Write that code here. {IN_PLACE}")
    if name in ("setattr", "getattr") and len(node.args) > 1:
        attribute = reading.constant(node.args[1].value)
        if attribute == "optimizer" and name == "setattr":
            raise reading.refusal(SEE_OPTIMIZER, node, _TO_COMPILE)
        if attribute in ("compile", "fit"):
            raise _reference(node, reading)


def _check_reference(node: cst.Attribute, reading: Reading) -> None:
    if node.attr.value not in ("compile", "fit"):
        return
    parent = next(reading.around(node), None)
    is_called = isinstance(parent, cst.Call) and parent.func is node
    owner = node.value
    of_class = reading.meaning(owner).startswith("keras.") or reading.definition(owner, cst.ClassDef) is not None
    if of_class or not (is_called or reading.is_foreign(owner)):
        raise _reference(node, reading)


def _reference(node: cst.CSTNode, reading: Reading) -> InvalidInput:
    remedy = f"Call it as a method of the model. {IN_PLACE}"
    return reading.refusal("--explain must see each call of compile and fit.", node, remedy)
