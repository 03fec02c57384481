"""Finds in a run's folder what its timeline is made of, Horovod's file or traces of torch's profiler, and reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.rank_files import STEPS, TIMELINE, TORCH_TRACE, rank_file, rank_file_pattern
from jupyter_ddl.timeline import perfetto
from jupyter_ddl.timeline.analysis import analyse, analyse_torch
from jupyter_ddl.timeline.torch_traces import perfetto_events

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jupyter_ddl.timeline.analysis import Analysis

_STEPS, _TRACES = rank_file_pattern(STEPS), rank_file_pattern(TORCH_TRACE)


def has_timeline(folder: Path) -> bool:
    """Return whether a run has one."""
    return any(untrusted_files.is_file(folder / rank_file(0, kind)) for kind in (TIMELINE, TORCH_TRACE))


def analyse_run(folder: Path, ahead_us: Mapping[int, float], kept: range = range(0)) -> Analysis:
    """Analyse the timeline of a run, whichever library recorded it.

    Args:
        folder: of the run.
        ahead_us: rank -> how far its host's clock was ahead, in microseconds.
        kept: the numbers of the steps that are kept whole, from 0.

    Raises:
        InvalidInput: it has none, or one that cannot be read.
    """
    traces = _traces(folder)
    return analyse_torch(traces, ahead_us, kept) if traces else analyse(_horovods(folder), kept)


def perfetto_pieces(folder: Path, ahead_us: Mapping[int, float]) -> Iterator[str]:
    """Yield the file for Perfetto of a run, a piece at a time.

    Raises:
        InvalidInput: it has no timeline.
    """
    traces = _traces(folder)
    if traces:
        return perfetto.as_list(perfetto_events(traces, ahead_us))
    return perfetto.pieces(_horovods(folder), _of_ranks(folder, _STEPS), ahead_us)


def _traces(folder: Path) -> dict[int, Path]:
    """Return rank -> what torch.profiler recorded; none where Horovod exchanged."""
    return {} if untrusted_files.is_file(folder / rank_file(0, TIMELINE)) else _of_ranks(folder, _TRACES)


def _horovods(folder: Path) -> Path:
    if not has_timeline(folder):
        raise InvalidInput(
            "A run has a timeline where it was recorded.",
            f"{folder.name}, which has none",
            "Run the cell again with %%distributed --timeline, the script with jupyter ddl run --timeline.",
        )
    return folder / rank_file(0, TIMELINE)


def _of_ranks(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    found = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return {int(match[1]): path for match, path in found if match is not None and untrusted_files.is_file(path)}
