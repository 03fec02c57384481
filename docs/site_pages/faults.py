"""Renders what faults say, by their codes: the tables of `jupyter_ddl/views/fault_texts.py`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from jupyter_ddl.views import fault_texts as texts
from site_pages.parsers import escaped, table

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTRODUCTION = """\
# What a fault says

The sentences that a cell, a terminal and the panel put together, with `{...}` for the facts of a case.
[When something fails](../faults.md) has what happens then.
"""
_GROUPS: tuple[tuple[str, Mapping[Any, str]], ...] = (
    ("What ended first", texts.ENDS),
    ("The likely cause of a rank's end", texts.CAUSES),
    ("A signal's likely cause", {signal.Signals(number).name: text for number, text in texts.SIGNALS.items()}),
    ("What a rank does that does not answer", texts.PROCESSES),
    ("How a batch job ended", texts.JOB_ENDS),
    ("What happens next, or what to do", texts.REMEDIES),
)


def render() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for title, sentences in _GROUPS:
        rows = [(f"`{code}`", escaped(sentence)) for code, sentence in sentences.items()]
        parts += [f"## {title}", table(("code", "text"), rows)]
    return "\n\n".join(parts) + "\n"
