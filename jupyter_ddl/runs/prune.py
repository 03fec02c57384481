"""Deletes old runs: those that were listed before, and nothing else.

These always stay: a run that runs or may still run, and a folder with files that are not a run's.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs.store import CUT_OFF, RUNNING, UNKNOWN, newest_first

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jupyter_ddl.runs.store import RunRecord

_DAY_S = 86_400.0
# Ranks that outlive their kernel continue to write, by default a sample a second.
_SILENT_S = 600.0
_OURS = re.compile(r"\.?(?:cell\.py|(?:run|labels)\.json|events\.jsonl|rank-[0-9]+\..+)")


@dataclass(frozen=True)
class Pruning:
    """The runs to delete, and old ones that stay.

    Attributes:
        doomed: the newest first.
        size_bytes: of the doomed on disk.
        spared: run -> why it stays.
        kept: how many runs stay, the spared ones included.
    """

    doomed: tuple[RunRecord, ...]
    size_bytes: int
    spared: dict[str, str]
    kept: int


def plan_pruning(*, keep: int | None = None, keep_days: float | None = None) -> Pruning:
    """Return what would be deleted to keep the newest `keep` runs, or those of the last `keep_days` days.

    Raises:
        InvalidInput: neither or both are given, or one is negative.
    """
    if (keep is None) == (keep_days is None):
        received = "neither" if keep is None else "both"
        raise InvalidInput("Pruning needs to know what to keep.", received, "Pass --keep N or --keep-days D.")
    for option, value in (("--keep", keep), ("--keep-days", keep_days)):
        if value is not None and not value >= 0:
            raise InvalidInput(
                f"{option} takes a number of at least 0.", f"{option} {value:g}", "Pass what is to stay."
            )
    runs = sorted(newest_first(), key=lambda record: record.start_s, reverse=True)
    if keep is not None:
        old = runs[keep:]
    else:
        assert keep_days is not None
        since_s = time.time() - keep_days * _DAY_S
        old = [record for record in runs if record.start_s < since_s]
    spared = {record.run: reason for record in old if (reason := reason_to_stay(record))}
    doomed = tuple(record for record in old if record.run not in spared)
    return Pruning(doomed, sum(map(_size_bytes, doomed)), spared, len(runs) - len(doomed))


def delete(records: Sequence[RunRecord]) -> None:
    """Delete runs.

    Raises:
        InvalidInput: some could not be deleted; the others are.
    """
    failed = []
    for record in records:
        try:
            # Refuses a folder that has become a link, and follows none.
            shutil.rmtree(record.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{record.path} ({error.strerror or error})")
    if failed:
        rest = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        remedy = "Delete it by hand, or have its owner do it."
        raise InvalidInput("A run's folder must be deletable.", failed[0] + rest, remedy)


def reason_to_stay(record: RunRecord) -> str | None:
    """Return why a run must not be deleted, as the end of a sentence; None where it may be."""
    try:
        return _reason_to_stay(record)
    except OSError as error:
        return f"its folder cannot be read ({error.strerror or error})"


def _reason_to_stay(record: RunRecord) -> str | None:
    if record.state == RUNNING:
        return "it is running"
    if record.state == UNKNOWN:
        return "the kernel that records it is on another host: prune it there"
    if record.state == CUT_OFF and time.time() - _written_s(record.path) < _SILENT_S:
        return f"it was written to in the last {_SILENT_S / 60:.0f} minutes"
    foreign = sorted(path.name for path in record.path.iterdir() if not _is_ours(path))
    if foreign:
        return f"it holds files that are not a run's: {_shown(foreign[0])}" + (
            f" and {len(foreign) - 1} more" * (len(foreign) > 1)
        )
    return None


def _shown(name: str) -> str:
    """Return a file's name for a sentence; one with control characters as Python's repr."""
    return name if name.isprintable() else ascii(name)


def _is_ours(path: Path) -> bool:
    return _OURS.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


def _written_s(folder: Path) -> float:
    with os.scandir(folder) as entries:
        times = [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
    return max(times, default=folder.stat().st_mtime)


def _size_bytes(record: RunRecord) -> int:
    try:
        with os.scandir(record.path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
    except OSError:
        # Another process is deleting it.
        return 0
