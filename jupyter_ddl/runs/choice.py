"""Chooses runs by what they have: their state, notebook, tags, name, model, and a text that any of these has.

Runs on: kernel, Jupyter server, or the terminal's process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.runs.store import RunRecord

FIELDS = ("state", "notebook", "tag", "name", "model")
"""What runs are chosen by, each of which may be given several times."""
MOST_VALUES = 50


@dataclass(frozen=True)
class Choice:
    """Which runs are meant: those that have all that is asked for. Capitals do not matter, except in a tag.

    Attributes:
        state: a run's state begins with one of these.
        notebook: the path of its notebook, or script, has one of these in it.
        tag: it has all of these tags.
        name: its name has one of these in it.
        model: its model has one of these in it.
        text: its id, or anything that is shown of it, has this in it.
    """

    state: tuple[str, ...] = ()
    notebook: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    text: str = ""

    @property
    def is_all(self) -> bool:
        """Whether every run is meant."""
        return not (self.text or any(getattr(self, field) for field in FIELDS))

    def has(self, record: RunRecord) -> bool:
        """Return whether a run is one of those that are meant."""
        state = record.state.casefold()
        return (
            (not self.state or any(state.startswith(one.casefold()) for one in self.state))
            and _has(record.notebook or record.script, self.notebook)
            and set(self.tag) <= set(record.tags)
            and _has(record.name, self.name)
            and _has(record.model, self.model)
            and self._has_text(record)
        )

    def _has_text(self, record: RunRecord) -> bool:
        text = self.text.casefold()
        told = (record.name, record.note, record.notebook or record.script, *record.tags)
        shown = (record.run, record.model, record.state, record.computes_on, *told)
        return not text or any(text in value.casefold() for value in shown if value)


def counted(records: Iterator[RunRecord], choice: Choice, most: int) -> dict[str, Any]:
    """Return how many of the newest runs are chosen, and which values there are to choose by, the newest first.

    Args:
        records: all runs, the newest first.
        choice: which are counted.
        most: how many runs are read.

    Returns:
        `chosen` and `read`, numbers of runs; `values`: of each of `FIELDS` at most `MOST_VALUES` times [value, runs].
    """
    chosen = read = 0
    values: dict[str, Counter[str]] = {field: Counter() for field in FIELDS}
    for record in islice(records, most):
        read += 1
        chosen += choice.has(record)
        place = (record.notebook or record.script or "").rpartition("/")[2]
        for field, found in zip(FIELDS, (record.state, place, None, record.name, record.model), strict=True):
            values[field].update([found] if found else [])
        values["tag"].update(record.tags)
    shown = {field: [list(one) for one in islice(found.items(), MOST_VALUES)] for field, found in values.items()}
    return {"chosen": chosen, "read": read, "values": shown}


def _has(value: str | None, texts: tuple[str, ...]) -> bool:
    return not texts or (value is not None and any(text.casefold() in value.casefold() for text in texts))
