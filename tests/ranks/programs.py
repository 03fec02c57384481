"""Runs the programs of tests/programs on ranks as somebody would paste them in a cell, and finds what came of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.session import Session

PROGRAMS = Path(__file__).parents[1] / "programs"
REPORT = Path(__file__).with_name("program_report.py").read_text()
TIMELINE = "timeline.json"
LIMIT_S = 200

BEGIN = """
import os as _os
_home = _os.getcwd()
_os.chdir({folder!r})
_os.environ["HOROVOD_TIMELINE"] = {timeline!r}
_before = set(globals())
"""

# The next program finds the ranks as this one found them. Keras's settings are those of the process.
END = """
import keras as _keras
_keras.config.set_dtype_policy("float32")
_keras.backend.clear_session()
for _name in set(globals()) - _before - {"_before", "_i", "_ii", "_iii"}:
    del globals()[_name]
_os.environ.pop("HOROVOD_TIMELINE", None)
_os.chdir(_home)
"""


@dataclass(frozen=True)
class Outcome:
    """What a program left behind.

    Attributes:
        ranks: each rank's report.
        exchanges: how many tensors Horovod's timeline says were reduced or gathered over the ranks.
        output: what each rank printed.
    """

    ranks: list[dict[str, Any]]
    exchanges: int
    output: list[str]

    def one(self, finding: str) -> Any:
        """Return what every rank found, where all must have found the same."""
        first, *others = [rank[finding] for rank in self.ranks]
        assert all(other == first for other in others), [rank[finding] for rank in self.ranks]
        return first


def text_of(name: str) -> str:
    """Return a program's text."""
    return (PROGRAMS / f"{name}.py").read_text()


def run_in_cell(session: Session, name: str, folder: Path) -> Outcome:
    """Run a program on all ranks in a cell of its own, in a folder of its own."""
    timeline = folder / TIMELINE
    session.run(BEGIN.format(folder=str(folder), timeline=str(timeline)))
    try:
        result = session.run(text_of(name), timeout_s=LIMIT_S)
        # A cell for which Horovod need not run comes after its shutdown, which completes the timeline.
        session.run("pass")
        exchanges = exchanges_in(timeline)
        session.run(REPORT, timeout_s=LIMIT_S)
        reports = session.pull("report")
    finally:
        session.run(END)
    ranks = sorted(reports)
    return Outcome([reports[rank] for rank in ranks], exchanges, [result.ranks[rank].stdout for rank in ranks])


def exchanges_in(timeline: Path) -> int:
    """Return how many tensors were reduced or gathered, as Horovod's timeline has it."""
    # Horovod leaves the file without its last bracket, so it is no JSON.
    return len(re.findall(r'"name": ?"(?:ALLREDUCE|ALLGATHER|ADASUM)"', timeline.read_text(errors="replace")))
