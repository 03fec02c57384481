"""Makes sentences of ranks that are held in the debugger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.cell_frames import is_cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.protocol.events import RankHeld


def held_sentence(held: Iterable[RankHeld]) -> str | None:
    """Return which ranks are held in the debugger, and where; None where none is.

    >>> from jupyter_ddl.protocol.events import RankHeld
    >>> held_sentence([RankHeld("run", 1, 0.0, "/tmp/ipykernel_1/2.py", 3, "<module>")])
    'Rank 1 is held in the debugger, at line 3 of a cell.'
    """
    found = sorted(held, key=lambda one: one.rank)
    return " ".join(f"Rank {one.rank} is held in the debugger, at {_place(one)}." for one in found) or None


def _place(held: RankHeld) -> str:
    if not is_cell(held.file):
        return f"{Path(held.file).name}:{held.line}, in {held.function}"
    within = "" if held.function == "<module>" else f", in {held.function}"
    return f"line {held.line} of a cell{within}"
