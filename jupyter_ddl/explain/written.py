"""Checks the program that was written: each model that is trained must exchange its gradients."""

from __future__ import annotations

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.modernise.names import code_of

_WRAPPED = "hvd.DistributedOptimizer("
_BEGINS_TOGETHER = ("hvd.callbacks.BroadcastGlobalVariablesCallback(", "StartTogether(")


def check(module: cst.Module, *, compiles: int, fits: int) -> None:
    """Check that as many calls of `compile` and `fit` were written for several ranks as were read.

    Args:
        module: the program that was written.
        compiles: calls of `compile` in the program that was read.
        fits: likewise of `fit`.

    Raises:
        InvalidInput: one was not, so that each rank would train a model of its own.
    """
    finder = _Finder()
    module.visit(finder)
    for what, found, wanted in (("compile", finder.compiles, compiles), ("fit", finder.fits, fits)):
        if found != wanted:
            raise InvalidInput(
                "A program that --explain writes exchanges the gradients of each model that it trains.",
                f"{found} of {wanted} calls of {what} that do",
                "Run it with --auto, without --explain: nothing needs to be written out for that.",
            )


class _Finder(cst.CSTVisitor):
    """Counts the calls that are written for several ranks."""

    def __init__(self) -> None:
        self.compiles = 0
        self.fits = 0

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802 (libcst's hook)
        if not isinstance(node.func, cst.Attribute):
            return
        texts = [code_of(arg.value) for arg in node.args]
        if node.func.attr.value == "compile":
            self.compiles += any(text.startswith(_WRAPPED) for text in texts)
        elif node.func.attr.value == "fit":
            self.fits += any(mark in text for text in texts for mark in _BEGINS_TOGETHER)
