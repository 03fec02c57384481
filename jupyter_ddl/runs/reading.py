"""Reads what a run's folder holds of its events, whatever became of those who wrote it.

A line that was cut by a kill, and one that this version does not know, are left out; a file that is not there is an
empty one.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from jupyter_ddl.events import COLLECTIVE_ON_SUBSET, RunFinished
from jupyter_ddl.wire import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from jupyter_ddl.events import Event, RankFailed
    from jupyter_ddl.wire import Wire

# A line that another process went on writing after a kill begins again in its middle. Within a JSON string the quotes
# would be escaped.
_BEGINNING = b'{"type":'
_LAST_LINE_BYTES = 1 << 16
_RANK_EVENTS = re.compile(r"rank-([0-9]+)\.events\.jsonl")


def read_events(path: Path, kinds: Iterable[type[Wire]] | None = None) -> Iterator[Event]:
    """Yield the events of a file, in order.

    Args:
        path: `events.jsonl`, or a rank's.
        kinds: the classes that are wanted; by default all. The others are not decoded.
    """
    wanted = None if kinds is None else tuple(kinds)
    names = None if wanted is None else [f'"{kind.type}"'.encode() for kind in wanted]
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if names is not None and not any(name in line for name in names):
                continue
            event = _event(line)
            if event is not None and (wanted is None or isinstance(event, wanted)):
                yield event


def run_events(folder: Path, kinds: Iterable[type[Wire]] | None = None) -> Iterator[Event]:
    """Yield a run's events: the merge, then what only the ranks' own files have, then the run's end.

    The ranks' files have more where the kernel that wrote the merge was killed, and its ranks went on.
    """
    wanted = None if kinds is None else (*kinds, RunFinished)
    seen: dict[int, int] = {}
    end: RunFinished | None = None
    for event in read_events(folder / "events.jsonl", wanted):
        if isinstance(event, RunFinished):
            end = event
            continue
        _note(event, seen)
        yield event
    for rank, path in rank_files(folder, _RANK_EVENTS).items():
        # Nearly always there is no more, which the last line tells.
        if _last_number(path) > seen.get(rank, 0):
            yield from (event for event in read_events(path, kinds) if _number(event) > seen.get(rank, 0))
    if end is not None and (kinds is None or isinstance(end, tuple(kinds))):
        yield end


def rank_files(folder: Path, name: re.Pattern[str]) -> dict[int, Path]:
    """Return rank -> file, in order of ranks, of the files whose whole name matches; its first group is the rank."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return {}
    found = {int(match[1]): folder / match[0] for match in map(name.fullmatch, names) if match}
    return dict(sorted(found.items()))


def causes_of(failures: Iterable[RankFailed]) -> list[RankFailed]:
    """Return what ranks raised by themselves, first first; where all were released, the first of those."""
    failures = sorted(failures, key=lambda failure: failure.at_s)
    own = [failure for failure in failures if not failure.released]
    # A rank that raises ends every collective, also one that the ranks of the run had to themselves.
    return [failure for failure in own if failure.name != COLLECTIVE_ON_SUBSET] or own or failures[:1]


def _event(line: bytes) -> Event | None:
    """Return the event of a line, or None where it has none."""
    for text in (line, line[max(0, line.rfind(_BEGINNING)) :]):
        try:
            event: Event = decode(json.loads(text))
        except (ValueError, TypeError, AttributeError, RecursionError):
            # No JSON, no such event, or no object.
            continue
        return event
    return None


def _note(event: Event, seen: dict[int, int]) -> None:
    number = _number(event)
    rank: int | None = getattr(event, "rank", None)
    if number and rank is not None:
        seen[rank] = max(seen.get(rank, 0), number)


def _number(event: Event) -> int:
    return getattr(event, "n", 0)


def _last_number(path: Path) -> int:
    """Return the number of the last whole event in a rank's file; one that is longer than usual counts as unknown."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _LAST_LINE_BYTES))
        for line in reversed(file.read().splitlines()):
            event = _event(line)
            if event is not None:
                return _number(event)
        return 1 << 62 if file.tell() else 0
