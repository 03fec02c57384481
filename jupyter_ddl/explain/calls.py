"""Reads calls of Keras's methods, with their arguments by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.modernise.names import code_of

if TYPE_CHECKING:
    import libcst as cst

# In the order in which they may be passed without a name.
# Source: keras 3.15, src/trainers/trainer.py and src/backend/tensorflow/trainer.py
ARGUMENTS = {
    method: tuple(names.split())
    for method, names in {
        "compile": "optimizer loss loss_weights metrics weighted_metrics run_eagerly steps_per_execution jit_compile "
        "auto_scale_loss",
        "fit": "x y batch_size epochs verbose callbacks validation_split validation_data shuffle class_weight "
        "sample_weight initial_epoch steps_per_epoch validation_steps validation_batch_size validation_freq",
        "evaluate": "x y batch_size verbose sample_weight steps callbacks return_dict",
        "predict": "x batch_size verbose steps callbacks",
    }.items()
}


@dataclass(frozen=True, eq=False)
class MethodCall:
    """One call of `compile`, `fit`, `evaluate` or `predict`.

    Attributes:
        node: the call.
        method: its name.
        receiver: whose method it is.
        arguments: by name.
        line: where it begins, from 1.
        may_repeat: it is in a loop or a function.
    """

    node: cst.Call
    method: str
    receiver: cst.BaseExpression
    arguments: dict[str, cst.Arg]
    line: int
    may_repeat: bool = False

    def value(self, name: str) -> cst.BaseExpression | None:
        """Return what is passed under a name; None where nothing or None is."""
        given = self.arguments.get(name)
        return None if given is None or code_of(given.value) == "None" else given.value

    def text(self, name: str) -> str | None:
        """Return what is passed under a name, as it is written."""
        value = self.value(name)
        return None if value is None else code_of(value)

    @property
    def place(self) -> str:
        """Where it is, for a message."""
        return f"line {self.line}: {code_of(self.node.func)}(...)"


def by_name(call: cst.Call, method: str) -> dict[str, cst.Arg] | None:
    """Return a call's arguments by name; None where `*args` or `**kwargs` hide them."""
    if any(arg.star for arg in call.args):
        return None
    names = iter(ARGUMENTS[method])
    return {next(names, "?") if arg.keyword is None else arg.keyword.value: arg for arg in call.args}
