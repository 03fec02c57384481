"""Checks the program that was written: each model that is trained must exchange its gradients."""

from __future__ import annotations

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.names import IN_PLACE
from jupyter_ddl.modernise.names import code_of, found


def check(module: cst.Module, *, compiles: int, fits: int) -> None:
    """Check that as many calls of `compile` and `fit` were written for several ranks as were read.

    Args:
        module: the program that was written.
        compiles: calls of `compile` in the program that was read.
        fits: likewise of `fit`.

    Raises:
        InvalidInput: one was not, so that each rank would train a model of its own.
    """
    calls = [call for call in found(module, cst.Call) if isinstance(call.func, cst.Attribute)]
    for method, wanted in (("compile", compiles), ("fit", fits)):
        own = [call for call in calls if code_of(call.func).endswith(f".{method}")]
        count = sum(_exchanges(call, method) for call in own)
        if count != wanted:
            raise InvalidInput(
                "A program that --explain writes exchanges the gradients of each model that it trains.",
                f"{count} of {wanted} calls of {method} that do",
                IN_PLACE,
            )


def _exchanges(call: cst.Call, method: str) -> bool:
    texts = [code_of(arg.value) for arg in call.args]
    if method == "compile":
        return any(text.startswith("hvd.DistributedOptimizer(") for text in texts)
    starts = ("hvd.callbacks.BroadcastGlobalVariablesCallback(", "StartTogether(")
    return any(start in text for text in texts for start in starts)
