"""Finds in a run's folder what its timeline is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.rank_files import STEPS, TIMELINE, rank_file, rank_file_pattern

if TYPE_CHECKING:
    from pathlib import Path

_STEPS = rank_file_pattern(STEPS)


def has_timeline(folder: Path) -> bool:
    """Return whether a run has one."""
    return untrusted_files.is_file(folder / rank_file(0, TIMELINE))


def timeline_of(folder: Path) -> Path:
    """Return the file of a run's timeline.

    Raises:
        InvalidInput: it has none.
    """
    if not has_timeline(folder):
        raise InvalidInput(
            "A run has a timeline where it was recorded.",
            f"{folder.name}, which has none",
            "Run the cell again with %%distributed --timeline, the script with jupyter ddl run --timeline.",
        )
    return folder / rank_file(0, TIMELINE)


def steps_of_ranks(folder: Path) -> dict[int, Path]:
    """Return rank -> the file of its steps' times."""
    found = ((_STEPS.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return {int(match[1]): path for match, path in found if match is not None and untrusted_files.is_file(path)}
