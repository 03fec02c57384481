"""Refuses custom training steps and losses that explicit Horovod would treat otherwise than `--auto`."""

# ruff: noqa: N802 (libcst's hooks)

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.models import methods_of
from jupyter_ddl.modernise.names import code_of, keyword
from jupyter_ddl.protocol.cell_options import GLOBAL

if TYPE_CHECKING:
    from jupyter_ddl.explain.reading import Reading
    from jupyter_ddl.protocol.cell_options import AutoOptions

_IN_PLACE = "Run it with --auto, without --explain: nothing needs to be written out for that."
_APPLIES = ("apply", "apply_gradients", "minimize")
_REDUCTIONS = ("'sum'", '"sum"', "None", "'none'", '"none"', "'mean_with_sample_weight'", '"mean_with_sample_weight"')


def check(reading: Reading, options: AutoOptions) -> None:
    """Check the program's own steps, optimizers and losses.

    Raises:
        InvalidInput: what is written out would train otherwise than `--auto`.
    """
    finder = _Classes()
    reading.wrapper.module.visit(finder)
    for made in finder.classes:
        own = methods_of(made)
        step = own.get("train_step")
        if step is not None and reading.may_be_model(made):
            _check_step(reading, made, step)
        if "apply_gradients" in own:
            raise _changed_gradients(reading, made, f"class {made.name.value} with apply_gradients of its own")
    if options.batch == GLOBAL:
        for call in finder.calls:
            given = keyword(call, "reduction")
            if given is not None and code_of(given.value) in _REDUCTIONS:
                raise InvalidInput(
                    "--explain with --batch global writes out losses that are means over the batch.",
                    f"line {reading.line(call)}: {code_of(call)}",
                    f"Leave reduction out. {_IN_PLACE}",
                )


def _check_step(reading: Reading, made: cst.ClassDef, step: cst.FunctionDef) -> None:
    found = _Step()
    step.body.visit(found)
    if found.takes_gradients and not found.applies and not found.calls_keras:
        raise InvalidInput(
            "--explain writes out updates by the optimizer of compile.",
            f"line {reading.line(made)}: class {made.name.value} with a train_step without self.optimizer",
            f"Update with self.optimizer.apply(gradients, variables). {_IN_PLACE}",
        )
    for receiver in found.others:
        raise InvalidInput(
            "--auto distributes the one optimizer of compile: which data a second one is for, it cannot know.",
            f"line {reading.line(made)}: class {made.name.value} with an update by {receiver}",
            "Write the program with hvd.DistributedGradientTape.",
        )
    if found.uses > found.applied_uses:
        raise _changed_gradients(reading, made, f"class {made.name.value} with a train_step that does")


def _changed_gradients(reading: Reading, made: cst.ClassDef, what: str) -> InvalidInput:
    return InvalidInput(
        "--explain writes out steps that hand their gradients to the optimizer as the tape gives them: explicit "
        "Horovod exchanges them there, and what changes them before would see one rank's.",
        f"line {reading.line(made)}: {what}",
        f"Clip with the optimizer's clipnorm, clipvalue or global_clipnorm. {_IN_PLACE}",
    )


class _Classes(cst.CSTVisitor):
    """All classes, and all calls."""

    def __init__(self) -> None:
        self.classes: list[cst.ClassDef] = []
        self.calls: list[cst.Call] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes.append(node)

    def visit_Call(self, node: cst.Call) -> None:
        self.calls.append(node)


class _Step(cst.CSTVisitor):
    """What a `train_step` does with its gradients, and who updates."""

    def __init__(self) -> None:
        self.gradients: set[str] = set()
        self.takes_gradients = False
        self.applies = False
        self.calls_keras = False
        self.others: list[str] = []
        self.uses = 0
        self.applied_uses = 0
        self._optimizers = {"self.optimizer"}
        self._in_apply = 0

    def visit_Assign(self, node: cst.Assign) -> None:
        names = [target.target.value for target in node.targets if isinstance(target.target, cst.Name)]
        if isinstance(node.value, cst.Call) and _is_gradient(node.value):
            self.gradients |= set(names)
        if code_of(node.value) in self._optimizers:
            self._optimizers |= set(names)

    def visit_Call(self, node: cst.Call) -> None:
        if not isinstance(node.func, cst.Attribute):
            return
        self.takes_gradients |= _is_gradient(node)
        receiver, method = code_of(node.func.value), node.func.attr.value
        if receiver == "super()" and method == "train_step":
            self.calls_keras = True
        if method not in _APPLIES:
            return
        if receiver in self._optimizers:
            self.applies = True
            self._in_apply += 1
        elif method != "apply":  # datasets and layers have one, too
            self.others.append(receiver)

    def leave_Call(self, original_node: cst.Call) -> None:
        func = original_node.func
        if isinstance(func, cst.Attribute) and func.attr.value in _APPLIES:
            self._in_apply -= code_of(func.value) in self._optimizers

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:  # noqa: ARG002 (libcst's signature)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in self.gradients:
            self.uses += 1
            self.applied_uses += self._in_apply > 0


def _is_gradient(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "gradient"
