"""Encodes events for the browser: numbered, many in one message, with few bytes for each.

A thousand ranks send a thousand samples and as many lines a second. Each would be half a kilobyte as an object, and
receiving and parsing them most of an update's cost for the page: so these are rows, whose columns the message lists
once, in `tables`. A row begins with the number of its table. A row with a list of ranks stands for an event of each:
ranks that do the same print the same.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, astuple, fields
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args

from jupyter_ddl.protocol.codec import json_value
from jupyter_ddl.protocol.events import Event, MetricsSample, OutputChunk
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.sample_means import Mean
from jupyter_ddl.views.fault import with_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# The same for all samples of a model: sent once.
_COMMON = ("run", "model")
# Not shown in the browser; it is in the run's files.
_UNSEEN = ("n", "step_p50_s", "step_p95_s")
# Columns that are not measured everywhere come last, so that they can be left out.
_MAYBE = (
    *("epochs", "epoch_part"),
    *("gpu_pct", "gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_watts", "gpu_celsius"),
    *("nvlink_received_bytes_per_s", "nvlink_sent_bytes_per_s"),
    # Of the first rank on each host.
    *("network_received_bytes_per_s", "network_sent_bytes_per_s"),
    *("fabric_received_bytes_per_s", "fabric_sent_bytes_per_s"),
)
_ALWAYS = tuple(
    field.name for field in fields(MetricsSample) if field.name not in {*_COMMON, *_UNSEEN, *_MAYBE, "at_s", "metrics"}
)
_SAMPLE_COLUMNS = ("at_s", "metrics", *_ALWAYS, *_MAYBE)
_OUTPUT_COLUMNS = ("rank", "stream", "text", "skipped_bytes")
_MEAN_COLUMNS = tuple(field.name for field in fields(Mean))
_figures = attrgetter(*_ALWAYS, *_MAYBE)
_to_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


class Entry:
    """An event, its number in the run, and its JSON, made when first needed."""

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

    def row(self, event: MetricsSample | OutputChunk) -> str:
        """Return this entry's event, which is `event`, as a row of its table."""
        if self._row is None:
            self._row = _sample_row(event) if isinstance(event, MetricsSample) else _output_row(event)
        return self._row


def batch(
    first: int,
    following: int,
    single_rank_samples_per_s: float | None,
    entries: Sequence[Entry],
    means: Mapping[int, Mean] | None = None,
    hosts: Mapping[str, Sequence[int]] | None = None,
) -> bytes:
    """Return events as one message for the browser.

    Args:
        first: the number of the first event.
        following: the number of the event that comes next.
        single_rank_samples_per_s: what one rank does alone, where that is known.
        entries: the events; those between `first` and `following` that are left out are obsolete.
        means: rank -> the means of all its steps, for a run that is over. The browser has seen few of its samples, and
        those to five digits: every view must show the same number.
        hosts: host -> its ranks, where the events may not say it.
    """
    # The newest sample: a run's first ones have no model yet.
    newest = next((entry.event for entry in reversed(entries) if isinstance(entry.event, MetricsSample)), None)
    output = next((entry.event for entry in entries if isinstance(entry.event, OutputChunk)), None)
    samples_have = {"run": newest.run, "model": newest.model} if newest is not None else {}
    output_has = {"run": output.run} if output is not None else {}
    head: dict[str, Any] = {
        "first": first,
        "next": following,
        "single": json_value(single_rank_samples_per_s),
        "tables": [
            {"type": MetricsSample.type, "columns": _SAMPLE_COLUMNS, "common": samples_have},
            {"type": OutputChunk.type, "columns": _OUTPUT_COLUMNS, "common": output_has},
        ],
    }
    if means is not None:
        rows = [[rank, *astuple(mean)] for rank, mean in sorted(means.items())]
        head["means"] = {"columns": ["rank", *_MEAN_COLUMNS], "rows": json_value(rows)}
    events = ",".join(_told(entries, samples_have, output_has))
    if hosts:
        head["hosts"] = hosts
    return f'{json.dumps(head)[:-1]},"events":[{events}]}}'.encode(errors="replace")


def _told(entries: Iterable[Entry], samples_have: dict[str, Any], output_has: dict[str, Any]) -> Iterator[str]:
    """Yield events as JSON; consecutive ones that differ only in the rank as one."""
    for line, group in groupby(entries, _line):
        alike = list(group)
        if line is None or len(alike) == 1 or line[0] != output_has["run"]:
            yield from (_as_told(entry, samples_have, output_has) for entry in alike)
        else:
            yield _as_json((1, [entry.event.rank for entry in alike], *line[1:]))  # type: ignore[union-attr]


def _line(entry: Entry) -> tuple[str, str, str] | None:
    """Return an output event's fields without its rank; None for other events."""
    chunk = entry.event
    if not isinstance(chunk, OutputChunk) or chunk.skipped_bytes:
        return None
    return chunk.run, chunk.stream, chunk.text


def _as_told(entry: Entry, samples_have: dict[str, Any], output_has: dict[str, Any]) -> str:
    """Return an event as a row if it fits its table; as an object otherwise."""
    event = entry.event
    if isinstance(event, MetricsSample):
        is_row = event.run == samples_have["run"] and event.model == samples_have["model"]
        return entry.row(event) if is_row else entry.json
    if isinstance(event, OutputChunk):
        return entry.row(event) if event.run == output_has["run"] else entry.json
    return entry.json


def to_json(event: Event) -> str:
    """Return an event as JSON that a browser reads.

    It has no default values, words for NaN and the infinities, and a fault's text.
    """
    content: dict[str, Any] = {"type": event.type}
    for name, default in _DEFAULTS[type(event)]:
        value = getattr(event, name)
        if value != default or type(value) is not type(default):
            content[name] = asdict(with_text(value)) if isinstance(value, Fault) else value
    return _as_json(content)


def _sample_row(sample: MetricsSample) -> str:
    """Return a sample's figures to five digits, enough to be read."""
    figures = [_figure(value) for value in _figures(sample)]
    while figures[-1] == "null":
        figures.pop()
    metrics = ",".join(f"{json.dumps(name)}:{_figure(value)}" for name, value in sample.metrics.items())
    at_s = f"{sample.at_s:.3f}" if math.isfinite(sample.at_s) else _figure(sample.at_s)
    return f"[0,{at_s},{{{metrics}}},{','.join(figures)}]"


def _output_row(chunk: OutputChunk) -> str:
    skipped = (chunk.skipped_bytes,) if chunk.skipped_bytes else ()
    return _as_json((1, chunk.rank, chunk.stream, chunk.text, *skipped))


def _figure(value: float | None) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.5g}"
    return json.dumps(json_value(value))


def _as_json(content: Any) -> str:
    return _to_json(json_value(content))


# The fields of each event, with their defaults.
_DEFAULTS: dict[type, list[tuple[str, Any]]] = {
    kind: [(f.name, f.default if f.default_factory is MISSING else f.default_factory()) for f in fields(kind)]
    for kind in get_args(Event)
}


def finite(value: Any) -> Any:
    """Return a JSON value with words for NaN and the infinities, which JSON lacks."""
    return json_value(value)
