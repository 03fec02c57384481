"""Finds in a run's folder what its timeline is made of, Horovod's file or traces of profilers, and reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.rank_files import (
    JAX_TRACE,
    STEPS,
    TENSORFLOW_TRACE,
    TIMELINE,
    TORCH_TRACE,
    rank_file,
    rank_file_pattern,
)
from jupyter_ddl.timeline import jax_traces, perfetto, torch_traces
from jupyter_ddl.timeline.analysis import analyse, analyse_joined

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jupyter_ddl.timeline.analysis import Analysis

_STEPS, _KERNELS = rank_file_pattern(STEPS), rank_file_pattern(TENSORFLOW_TRACE)
# What profilers record on each rank, in the order in which they are looked for; Horovod's file comes first.
_PROFILERS = ((TORCH_TRACE, "torch.profiler", torch_traces), (JAX_TRACE, "jax.profiler", jax_traces))


def has_timeline(folder: Path) -> bool:
    """Return whether a run has one."""
    return any(untrusted_files.is_file(folder / rank_file(0, kind)) for kind in (TIMELINE, TORCH_TRACE, JAX_TRACE))


def analyse_run(folder: Path, ahead_us: Mapping[int, float], kept: range = range(0)) -> Analysis:
    """Analyse the timeline of a run, whichever library recorded it.

    Args:
        folder: of the run.
        ahead_us: rank -> how far its host's clock was ahead, in microseconds.
        kept: the numbers of the steps that are kept whole, from 0.

    Raises:
        InvalidInput: it has none, or one that cannot be read.
    """
    for kind, profiler, library in _PROFILERS:
        if traces := _traces(folder, kind):
            return analyse_joined(traces[min(traces)], profiler, library.joined(traces, ahead_us), kept)
    return analyse(_horovods(folder), kept)


def perfetto_pieces(folder: Path, ahead_us: Mapping[int, float]) -> Iterator[str]:
    """Yield the file for Perfetto of a run, a piece at a time.

    Raises:
        InvalidInput: it has no timeline.
    """
    for kind, _, library in _PROFILERS:
        if traces := _traces(folder, kind):
            return perfetto.as_list(library.perfetto_events(traces, ahead_us))
    return perfetto.pieces(_horovods(folder), _of_ranks(folder, _STEPS), ahead_us, _of_ranks(folder, _KERNELS))


def _traces(folder: Path, kind: str) -> dict[int, Path]:
    """Return rank -> what a profiler recorded; none where Horovod exchanged."""
    has_horovods = untrusted_files.is_file(folder / rank_file(0, TIMELINE))
    return {} if has_horovods else _of_ranks(folder, rank_file_pattern(kind))


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
