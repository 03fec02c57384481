"""Reads the events in a run's folder, even if its writers were killed.

A line that was cut by a kill, and one that this version does not know, are left out; a missing file, a link, a FIFO and
a device count as empty files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.events import COLLECTIVE_ON_SUBSET, Event, RankFailed, RankFinished, RunFinished
from jupyter_ddl.protocol.rank_files import EVENTS, rank_file_pattern
from jupyter_ddl.protocol.untrusted_json import parse_json
from jupyter_ddl.runs.older_records import of_this_version

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator
    from pathlib import Path


# After a kill another process may continue the file in the middle of a line, where a new object begins. Within a JSON
# string its quotes would be escaped.
_BEGINNING = b'{"type":'
_LAST_LINE_BYTES = 1 << 16
_UNKNOWN = 1 << 62
_RANK_EVENTS = rank_file_pattern(EVENTS)


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a file, `events.jsonl` or a rank's, in order."""
    try:
        file = untrusted_files.open_file(path)
    except OSError:
        return
    with file:
        for line in untrusted_files.lines(file):
            event = event_of(line)
            if event is not None:
                yield event


def run_events(folder: Path) -> Iterator[Event]:
    """Yield a run's events: the merge, then what only the ranks' own files have, then the run's end.

    The ranks' files have more if the kernel that wrote the merge was killed and its ranks continued. A rank's output
    after its own end (of a thread that the cell left behind) is in its file and log, and not part of the run.
    """
    seen: dict[int, int] = {}
    ended: set[int] = set()
    end: RunFinished | None = None

    for event in read_events(folder / "events.jsonl"):
        if isinstance(event, RunFinished):
            end = event
            continue
        rank = getattr(event, "rank", None)
        if rank is not None:
            seen[rank] = max(seen.get(rank, 0), _number(event))
        if isinstance(event, RankFinished | RankFailed):
            ended.add(event.rank)
        yield event
    # Nearly always there is no more, as the rank's end or the last line shows.
    more = [
        _after(read_events(path), seen.get(rank, 0))
        for rank, path in rank_files(folder, _RANK_EVENTS).items()
        if rank not in ended and _last_number(path) > seen.get(rank, 0)
    ]
    yield from _in_turn(more)
    if end is not None:
        yield end


def rank_files(folder: Path, name: re.Pattern[str]) -> dict[int, Path]:
    """Return rank -> file, in order of ranks, of the files whose whole name matches; its first group is the rank.

    Links and FIFOs are left out.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        # Removed meanwhile, or another user's.
        return {}
    found = {int(match[1]): folder / match[0] for match in map(name.fullmatch, names) if match}
    return dict(sorted(found.items()))


def causes_of(failures: Iterable[RankFailed]) -> list[RankFailed]:
    """Return what ranks raised by themselves, first first; where all were released, the first of those."""
    failures = sorted(failures, key=lambda failure: failure.at_s)
    own = [failure for failure in failures if not failure.released]
    # A rank that raises ends every collective, even one of the run's ranks alone.
    return [failure for failure in own if failure.name != COLLECTIVE_ON_SUBSET] or own or failures[:1]


def event_of(line: bytes) -> Event | None:
    """Return the event of a line of such a file, or None where it has none."""
    for text in (line, line[max(0, line.rfind(_BEGINNING)) :]):
        for as_written in (True, False):
            try:
                event: Event = decode(text if as_written else of_this_version(parse_json(text)), Event)
            except (ValueError, TypeError, AttributeError):
                # No JSON, no such event, or an older version's.
                continue
            return event
    return None


def _after(events: Iterator[Event], number: int) -> Iterator[Event]:
    """Yield a rank's events after the one of that number, up to the rank's end."""
    for event in events:
        if _number(event) > number:
            yield event
            if isinstance(event, RankFinished | RankFailed):
                return


def _in_turn(queues: list[Iterator[Event]]) -> Iterator[Event]:
    """Yield an event of each in turn: there is no order between ranks, which run in parallel."""
    while queues:
        for queue in list(queues):
            event = next(queue, None)
            if event is None:
                queues.remove(queue)
            else:
                yield event


def _number(event: Event) -> int:
    return getattr(event, "n", 0)


def _last_number(path: Path) -> int:
    """Return the number of the last whole event in a rank's file; one that is longer than usual counts as unknown."""
    try:
        with untrusted_files.open_file(path) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LAST_LINE_BYTES))
            last = file.read(_LAST_LINE_BYTES)
    except OSError:
        return 0
    numbers = (_number(event) for line in reversed(last.splitlines()) if (event := event_of(line)) is not None)
    return next(numbers, _UNKNOWN if last else 0)
