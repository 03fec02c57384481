"""Finds parts of a model that compute something else on several ranks than in one process, as `--auto` reports them."""

# ruff: noqa: N802 (libcst's hooks)

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.explain.models import methods_of
from jupyter_ddl.modernise.names import code_of, keyword
from jupyter_ddl.protocol import plan_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.explain.settings import Settings

_LOSS_OF_COMPILE = {"compute_loss", "_compute_loss", "compiled_loss", "train_step"}
_SUMS = ("'sum'", '"sum"', "None", "'none'", '"none"')
_NO_UPDATES = ("__init__", "build", "reset_state", "result", "get_config", "from_config")
_ADDS = {"assign_add", "assign_sub", "update_state"}


def rows(settings: Settings) -> dict[str, str]:
    """Return the plan's rows about what differs, by their names."""
    finder = _Code()
    settings.reading.wrapper.module.visit(finder)
    own = list(_own_losses(settings, finder))
    has_sums = any(_is_sum(call) for call in finder.calls)
    losses = plan_texts.loss(own, has_sums=has_sums, whole_batches=settings.shares_batches)
    return plan_texts.joined({"loss": losses, "metrics": list(_metrics(settings, finder))})


def _own_losses(settings: Settings, finder: _Code) -> Iterator[str]:
    for made in finder.classes:
        own = methods_of(made)
        if not settings.reading.may_be_model(made):
            continue
        if "train_step" in own and not _LOSS_OF_COMPILE & _attributes(own["train_step"]):
            yield "train_step"
        if "compute_loss" in own and "compute_loss" not in _attributes(own["compute_loss"]):
            yield "compute_loss"
    for made in finder.classes:
        call = methods_of(made).get("call")
        if call is not None and "add_loss" in _attributes(call):
            yield f"add_loss of {made.name.value}"


def _metrics(settings: Settings, finder: _Code) -> Iterator[str]:
    for made in finder.classes:
        own = methods_of(made)
        meanings = [settings.reading.meaning(base.value) or code_of(base.value) for base in made.bases]
        if not {"update_state", "result"} & own.keys() or not any("metrics." in meaning for meaning in meanings):
            continue
        updates = [_attributes(method) for name, method in own.items() if name not in _NO_UPDATES]
        adds = "update_state" not in own or any(_ADDS & names for names in updates)
        yield plan_texts.metric(made.name.value, adds_up=adds and not any("assign" in names for names in updates))


def _is_sum(call: cst.Call) -> bool:
    given = keyword(call, "reduction")
    return given is not None and code_of(given.value) in _SUMS


def _attributes(function: cst.FunctionDef) -> set[str]:
    finder = _Code()
    function.body.visit(finder)
    return finder.attributes


class _Code(cst.CSTVisitor):
    """Classes, calls, and the names of attributes."""

    def __init__(self) -> None:
        self.classes: list[cst.ClassDef] = []
        self.calls: list[cst.Call] = []
        self.attributes: set[str] = set()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes.append(node)

    def visit_Call(self, node: cst.Call) -> None:
        self.calls.append(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.attributes.add(node.attr.value)
