"""Refuses custom training steps and losses that explicit Horovod would treat otherwise than `--auto`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.explain.differences import reductions
from jupyter_ddl.explain.names import IN_PLACE, methods_of
from jupyter_ddl.explain.reading import ONE_OPTIMIZER
from jupyter_ddl.modernise.names import code_of, found
from jupyter_ddl.protocol.cell_options import GLOBAL

if TYPE_CHECKING:
    from jupyter_ddl.errors import InvalidInput
    from jupyter_ddl.explain.reading import Reading
    from jupyter_ddl.protocol.cell_options import AutoOptions

_APPLIES = ("apply", "apply_gradients", "minimize")
_REDUCTIONS = ("'sum'", '"sum"', "None", "'none'", '"none"', "'mean_with_sample_weight'", '"mean_with_sample_weight"')


def check(reading: Reading, options: AutoOptions) -> None:
    """Check the program's own steps, optimizers and losses.

    Raises:
        InvalidInput: what is written out would train otherwise than `--auto`.
    """
    for made in reading.classes:
        own = methods_of(made)
        if "train_step" in own and reading.may_be_model(made):
            _check_step(reading, made, own["train_step"])
        if "apply_gradients" in own:
            raise _changed_gradients(reading, made, "apply_gradients of its own")
    for call in reductions(reading, _REDUCTIONS) if options.batch == GLOBAL else ():
        rule = "--explain with --batch global writes out losses that are means over the batch."
        raise reading.refusal(rule, call, f"Leave reduction out. {IN_PLACE}")


def _check_step(reading: Reading, made: cst.ClassDef, step: cst.FunctionDef) -> None:
    gradients, optimizers = set(), {"self.optimizer"}
    for node in found(step.body, cst.Assign):
        names = {target.target.value for target in node.targets if isinstance(target.target, cst.Name)}
        if isinstance(node.value, cst.Call) and _method(node.value)[1] == "gradient":
            gradients |= names
        if code_of(node.value) in optimizers:
            optimizers |= names
    calls = [(call, *_method(call)) for call in found(step.body, cst.Call)]
    updates = [(call, receiver, method) for call, receiver, method in calls if method in _APPLIES]
    own = [call for call, receiver, _ in updates if receiver in optimizers]
    takes_gradients = any(method == "gradient" for *_, method in calls)
    calls_keras = any((receiver, method) == ("super()", "train_step") for _, receiver, method in calls)
    if takes_gradients and not own and not calls_keras:
        raise reading.refusal(
            "--explain writes out updates by the optimizer of compile.",
            made,
            f"Update with self.optimizer.apply(gradients, variables). {IN_PLACE}",
            what=f"class {made.name.value} with a train_step without self.optimizer",
        )
    for _, receiver, method in updates:
        if receiver not in optimizers and method != "apply":  # datasets and layers have one, too
            rule, remedy = ONE_OPTIMIZER
            raise reading.refusal(rule, made, remedy, what=f"class {made.name.value} with an update by {receiver}")
    handed_on = [name for call in own for name in found(call, cst.Name)]
    used = found(step.body, cst.Name, outside=(cst.AssignTarget,))
    if any(name.value in gradients and name not in handed_on for name in used):
        raise _changed_gradients(reading, made, "a train_step that does")


def _changed_gradients(reading: Reading, made: cst.ClassDef, what: str) -> InvalidInput:
    return reading.refusal(
        "--explain writes out steps that hand their gradients to the optimizer as the tape gives them: explicit "
        "Horovod exchanges them there, and what changes them before would see one rank's.",
        made,
        f"Clip with the optimizer's clipnorm, clipvalue or global_clipnorm. {IN_PLACE}",
        what=f"class {made.name.value} with {what}",
    )


def _method(call: cst.Call) -> tuple[str, str]:
    """Return whose method is called, and its name; two empty texts for a function."""
    return (code_of(call.func.value), call.func.attr.value) if isinstance(call.func, cst.Attribute) else ("", "")
