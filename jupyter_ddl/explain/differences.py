"""Finds parts of a model that compute something else on several ranks than in one process, as `--auto` reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.explain.names import methods_of
from jupyter_ddl.modernise.names import code_of, found, keyword
from jupyter_ddl.protocol import plan_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.explain.reading import Reading
    from jupyter_ddl.explain.settings import Settings

_LOSS_OF_COMPILE = {"compute_loss", "_compute_loss", "compiled_loss", "train_step"}
_SUMS = ("'sum'", '"sum"', "None", "'none'", '"none"')
_NO_UPDATES = ("__init__", "build", "reset_state", "result", "get_config", "from_config")
_ADDS = {"assign_add", "assign_sub", "update_state"}


def rows(settings: Settings) -> dict[str, str]:
    """Return the plan's rows about what differs, by their names."""
    reading = settings.reading
    own = list(_own_losses(reading))
    losses = plan_texts.loss(own, has_sums=bool(reductions(reading, _SUMS)), whole_batches=settings.shares_batches)
    return plan_texts.joined({"loss": losses, "metrics": list(_metrics(reading))})


def reductions(reading: Reading, kinds: tuple[str, ...]) -> list[cst.Call]:
    """Return the calls that pass one of these as `reduction`."""
    given = [(call, keyword(call, "reduction")) for call in reading.calls]
    return [call for call, arg in given if arg is not None and code_of(arg.value) in kinds]


def _own_losses(reading: Reading) -> Iterator[str]:
    for made in filter(reading.may_be_model, reading.classes):
        own = methods_of(made)
        if "train_step" in own and not _LOSS_OF_COMPILE & _attributes(own["train_step"]):
            yield "train_step"
        if "compute_loss" in own and "compute_loss" not in _attributes(own["compute_loss"]):
            yield "compute_loss"
    for made in reading.classes:
        call = methods_of(made).get("call")
        if call is not None and "add_loss" in _attributes(call):
            yield f"add_loss of {made.name.value}"


def _metrics(reading: Reading) -> Iterator[str]:
    for made in reading.classes:
        own = methods_of(made)
        meanings = [reading.meaning(base.value) or code_of(base.value) for base in made.bases]
        if not {"update_state", "result"} & own.keys() or not any("metrics." in meaning for meaning in meanings):
            continue
        updates = [_attributes(method) for name, method in own.items() if name not in _NO_UPDATES]
        adds = "update_state" not in own or any(_ADDS & names for names in updates)
        yield plan_texts.metric(made.name.value, adds_up=adds and not any("assign" in names for names in updates))


def _attributes(function: cst.FunctionDef) -> set[str]:
    return {node.attr.value for node in found(function.body, cst.Attribute)}
