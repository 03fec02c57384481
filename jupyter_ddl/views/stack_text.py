"""Renders where ranks are: those at the same place together, cells by their line, libraries in short."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.cell_frames import is_cell
from jupyter_ddl.protocol.rank_sets import heading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_ddl.protocol.rank_answers import RankStacks

_LIBRARY = re.compile(r".*/(?:(?:site|dist)-packages|lib/python3\.\d+)/")
_LIBRARY_FRAMES = 4  # consecutive calls within libraries: more are abbreviated
_OUTSIDE_FRAMES = 6  # of a main thread that is in no cell
_HOSTS = 3


def render_stacks(stacks: Iterable[RankStacks], world_size: int) -> str:
    """Return where ranks are, each place once."""
    groups: dict[tuple[str, ...], list[RankStacks]] = {}
    for rank in sorted(stacks, key=lambda stack: stack.rank):
        groups.setdefault(tuple(place(rank)) or (rank.note,), []).append(rank)
    rendered: list[str] = []
    for lines, ranks in groups.items():
        rendered += [_heading(ranks, world_size), *_notes(ranks)]
        if ranks[0].threads:
            rendered += lines
    return "\n".join(rendered)


def place(stacks: RankStacks) -> list[str]:
    """Return where a rank's main thread is, and each other thread that its user began, as lines."""
    if not stacks.threads:
        return []
    main, *others = stacks.threads
    lines = _main(main["frames"])
    for thread in others:
        frames = _from_cell(thread["frames"])
        if frames:
            lines += [f"  thread {thread['name']}", *(f"  {line}" for line in _told(frames))]
    return lines


def _main(frames: Sequence[Sequence[Any]]) -> list[str]:
    in_cell = _from_cell(frames)
    if in_cell:
        return _told(in_cell)
    if not frames or (frames[-1][2] == "select" and frames[-1][0].endswith("selectors.py")):
        return ["  idle"]
    return _told(frames[-_OUTSIDE_FRAMES:])


def _from_cell(frames: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Return the frames from the first of a cell, or of a script, on; none where none is of one."""
    first = next((index for index, frame in enumerate(frames) if _is_own(frame)), len(frames))
    return frames[first:]


def _told(frames: Sequence[Sequence[Any]]) -> list[str]:
    """Return a line for each frame of a cell, and for the first and the last of each stretch in libraries."""
    running = next((file for file, _, function, _ in frames if function == "<module>" and is_cell(file)), None)
    lines: list[str] = []
    for in_cell, stretch in groupby(frames, key=_is_own):
        if in_cell:
            lines += [_cell_line(frame, is_running=frame[0] == running) for frame in stretch]
            continue
        calls = [_library_line(frame) for frame in stretch]
        if len(calls) > _LIBRARY_FRAMES:
            calls[1:-2] = [f"    … {len(calls) - 3} more"]
        lines += calls
    return lines


def _is_own(frame: Sequence[Any]) -> bool:
    """Return whether a frame is of a cell, or of a script, whose lines have a text."""
    return is_cell(frame[0]) or bool(frame[3])


def _cell_line(frame: Sequence[Any], *, is_running: bool) -> str:
    file, line, function, text = frame
    where = f"cell line {line}" if is_running else f"line {line} of another cell"
    if not is_cell(file):
        where = f"{file}:{line}"
    inside = "" if function == "<module>" else f", in {function}"
    return f"  {where}{inside}" + (f": {text}" if text else "")


def _library_line(frame: Sequence[Any]) -> str:
    file, line, function, _ = frame
    return f"    {_LIBRARY.sub('', file)}:{line}, in {function}" if file else f"    {function}"


def _notes(ranks: Sequence[RankStacks]) -> list[str]:
    """Return each note once, with its ranks where they are not all."""
    noted: dict[str, list[int]] = {}
    for rank in ranks:
        if rank.note:
            noted.setdefault(rank.note, []).append(rank.rank)
    return [
        f"  ({'' if len(noting) == len(ranks) else f'{heading(noting).lower()}: '}{note})"
        for note, noting in noted.items()
    ]


def _heading(ranks: Sequence[RankStacks], world_size: int) -> str:
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    on = ", ".join(hosts[:_HOSTS]) + (f" and {len(hosts) - _HOSTS} more" if len(hosts) > _HOSTS else "")
    return f"{heading([rank.rank for rank in ranks])} of {world_size} on {on}"
