"""Callbacks: Horovod's warm-up without `initial_lr`, `period=1`, ReduceLROnPlateau's `epsilon`."""

from __future__ import annotations

import libcst as cst
from libcst.metadata import ScopeProvider

from jupyter_ddl.modernise.names import (
    Codemod,
    added,
    argument,
    found,
    keyword,
    optimizer_class,
    rate_argument,
    renamed,
    replaced,
    without,
)

RATE_CALLBACKS = ("hvd.callbacks.LearningRateWarmupCallback", "hvd.callbacks.LearningRateScheduleCallback")
_ASKS = "# Pass initial_lr too: the learning rate that the optimizer was made with."


class Callbacks(Codemod):
    """Calls of callbacks' classes."""

    def visit_Module(self, node: cst.Module) -> None:
        made = [call for call in found(node, cst.Call) if optimizer_class(self.meaning(call.func)) is not None]
        rates = [(self.get_metadata(ScopeProvider, call, None), rate_argument(call)) for call in made]
        self._rates = [(scope, rate.value) for scope, rate in rates if rate is not None]
        self._asks = False

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:  # noqa: ARG002 (libcst's signature)
        self._asks = False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        lines = original_node.leading_lines
        if not self._asks or any(line.comment is not None and line.comment.value == _ASKS for line in lines):
            return updated_node
        asks = cst.EmptyLine(comment=cst.Comment(_ASKS))
        return updated_node.with_changes(leading_lines=[*updated_node.leading_lines, asks])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        meaning = self.meaning(original_node.func)
        if meaning in RATE_CALLBACKS:
            return self._with_initial_lr(original_node, updated_node)
        if meaning == "keras.callbacks.ReduceLROnPlateau" and (old := keyword(updated_node, "epsilon")):
            return updated_node.with_changes(args=replaced(updated_node.args, old, renamed(old, "min_delta")))
        if meaning == "keras.callbacks.ModelCheckpoint" and (old := keyword(updated_node, "period")):
            is_one = isinstance(old.value, cst.Integer) and old.value.evaluated_value == 1
            return updated_node.with_changes(args=without(updated_node.args, "period")) if is_one else updated_node
        return updated_node

    def _with_initial_lr(self, original: cst.Call, call: cst.Call) -> cst.Call:
        if not lacks_initial_lr(call):
            return call
        here = self.get_metadata(ScopeProvider, original, None)
        if len(self._rates) != 1 or self._rates[0][0] is not here:
            self._asks = True
            return call
        rate = self._rates[0][1]
        return call.with_changes(args=added(call.args, argument("initial_lr", rate.deep_clone())))


def lacks_initial_lr(call: cst.Call) -> bool:
    """Return whether a call of a callback that sets the rate does not say from which one.

    Horovod's older signature began with the epochs, and today's begins with initial_lr: positions say nothing.
    """
    return keyword(call, "initial_lr") is None and all(arg.keyword is not None and not arg.star for arg in call.args)
