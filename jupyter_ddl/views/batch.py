"""Events as the browser takes them: numbered, many in one message, and few bytes of each.

Of a thousand ranks come a thousand samples a second. Each would be half a kilobyte as an object, and receiving and
parsing them most of what an update costs the page: so a sample is a row of figures, whose names the message tells once.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from jupyter_ddl.events import MetricsSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.events import Event

# The same for all samples of a model: told once. A sample that has others goes out as an object.
_COMMON = ("run", "model")
# What is not measured everywhere stands last, and is then left out. The number of a sample is of no use to a view.
_MAYBE = ("gpu_pct", "gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_watts", "gpu_celsius")
_ALWAYS = tuple(
    field.name for field in fields(MetricsSample) if field.name not in {*_COMMON, *_MAYBE, "at_s", "metrics", "n"}
)
COLUMNS = ("at_s", "metrics", *_ALWAYS, *_MAYBE)
_figures = attrgetter(*_ALWAYS, *_MAYBE)


class Entry:
    """An event, its number in the run, and its JSON once somebody asked for it."""

    __slots__ = ("_json", "_row", "event", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number = number
        self.event = event
        self._json: str | None = None
        self._row: str | None = None

    @property
    def json(self) -> str:
        """The event as JSON, without the fields that hold their defaults."""
        if self._json is None:
            self._json = to_json(self.event)
        return self._json

    def row(self, sample: MetricsSample) -> str:
        """Return the figures of a sample, which is this event, as a JSON array in the order of COLUMNS."""
        if self._row is None:
            self._row = to_row(sample)
        return self._row


def batch(first: int, following: int, single_rank_samples_per_s: float | None, entries: Sequence[Entry]) -> bytes:
    """Return events as one message for the browser.

    Args:
        first: the number of the first event.
        following: the number of the event that comes next.
        single_rank_samples_per_s: what one rank does alone, where that is known.
        entries: the events; those between `first` and `following` that are left out are of no use any more.
    """
    # The newest sample: the first ones of a run know no model yet.
    newest = next((entry.event for entry in reversed(entries) if isinstance(entry.event, MetricsSample)), None)
    run, model = (newest.run, newest.model) if newest is not None else (None, None)
    events = [
        entry.row(entry.event)
        if isinstance(entry.event, MetricsSample) and entry.event.run == run and entry.event.model == model
        else entry.json
        for entry in entries
    ]
    head = {
        "first": first,
        "next": following,
        "single": finite(single_rank_samples_per_s),
        "columns": COLUMNS,
        "common": {"run": run, "model": model},
    }
    return f'{json.dumps(head)[:-1]},"events":[{",".join(events)}]}}'.encode(errors="replace")


def to_json(event: Event) -> str:
    """Return an event as JSON that a browser reads: no default, and words for NaN and the infinities."""
    content = {"type": event.type}
    for name, default in _defaults(type(event)):
        value = getattr(event, name)
        if value != default or type(value) is not type(default):
            content[name] = value
    return _as_json(content)


def to_row(sample: MetricsSample) -> str:
    """Return a sample's figures as a JSON array in the order of COLUMNS, to five digits: it is for eyes."""
    figures = [_figure(value) for value in _figures(sample)]
    while figures[-1] == "null":
        figures.pop()
    return f"[{sample.at_s:.3f},{_as_json(sample.metrics)},{','.join(figures)}]"


def _figure(value: float | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    return f"{value:.5g}" if math.isfinite(value) else json.dumps(finite(value))


def _as_json(content: Any) -> str:
    try:
        return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(finite(content), ensure_ascii=False, separators=(",", ":"))


_KNOWN: dict[type, list[tuple[str, Any]]] = {}


def _defaults(kind: type[Event]) -> list[tuple[str, Any]]:
    if kind not in _KNOWN:
        _KNOWN[kind] = [
            (f.name, f.default if f.default_factory is MISSING else f.default_factory()) for f in fields(kind)
        ]
    return _KNOWN[kind]


def finite(value: Any) -> Any:
    """Return a JSON value with words in place of NaN and the infinities, which JSON has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
