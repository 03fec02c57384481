"""Finds runs on disk, at a cost that does not depend on what the runs printed or measured.

A run is a folder of `paths.runs_dir()` whose name is a run's id, and which is this user's. Links are never followed,
and anything a cell may have left in a file's place is read as data (`untrusted_files`), so that it hides no other run.
"""

from __future__ import annotations

import math
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from jupyter_ddl import paths
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import process_identity, untrusted_files
from jupyter_ddl.protocol.codec import number_in, record_of
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.parameters import Scalar, readable
from jupyter_ddl.protocol.rank_files import EVENTS, LOG, rank_file_pattern
from jupyter_ddl.runs.labels import read_labels
from jupyter_ddl.runs.origin import origin_in
from jupyter_ddl.runs.reading import rank_files

if TYPE_CHECKING:
    from collections.abc import Iterator

_ID = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2})-[\w.-]{1,64}-[0-9a-f]{4,16}", re.ASCII)
_TIME = "%Y-%m-%dT%H-%M-%S"
_LOG = rank_file_pattern(LOG, EVENTS)
_BEGINNING_S = 5.0
_AMBIGUOUS_SHOWN = 4
_MOST = 1_000_000  # ranks, or threads of one
_MOST_CHARACTERS = 1_000
# How many runs a search for one rank's figure reads: not years of them.
_SEARCHED = 500
# The last time that has the same name as the second's begin.
_END_OF_SECOND_S = 0.999_999

RUNNING = "running"
CUT_OFF = "cut off"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class RunRecord:
    """A run as recorded in run.json, or where that lacks something, in its folder's name.

    Attributes:
        path: its folder.
        run: its id.
        start_s: when it began, seconds since the epoch.
        ranks: the ranks that ran the cell, in order.
        world_size: of the cluster, as far as known.
        state: its outcome, as in `events.Outcome`; of a run without one "running" where the kernel that records it
            lives, "cut off" where that has ended, "unknown" where that is on another host.
        seconds: its duration; None while it runs, and where not recorded.
        samples_per_s: of all ranks together; None where nothing was measured.
        loss: the last one.
        computes_on: what its first rank computed with, e.g. "CPU, 4 threads"; None where not recorded.
        options: as the cell, or the script, had them.
        world_id: of the ranks, which no others before or after them have; None of a script.
        fault: why it did not finish well; None where it did, and where not recorded.
        script: as its command line named it; None of a cell.
        notebook: the path of the cell's notebook when its kernel started; None where no front end said it.
        cell_id: JupyterLab's id of the cell; likewise.
        cell_number: the number in its brackets.
        first_line: the beginning of its code.
        git_commit: of the notebook's folder; None where it has none.
        name: as its user named it.
        note: what the user wrote of it.
        tags: which the user gave it.
        parameters: what `fit` was given, and what the code, or the user, logged.
    """

    path: Path
    run: str
    start_s: float
    ranks: tuple[int, ...]
    world_size: int
    state: str
    seconds: float | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    model: str | None = None
    computes_on: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    world_id: str | None = None
    fault: Fault | None = None
    script: str | None = None
    notebook: str | None = None
    cell_id: str | None = None
    cell_number: int | None = None
    first_line: str | None = None
    git_commit: str | None = None
    name: str | None = None
    note: str | None = None
    tags: tuple[str, ...] = ()
    parameters: dict[str, Scalar] = field(default_factory=dict)


def newest_first(before: str | None = None) -> Iterator[RunRecord]:
    """Yield all runs, the newest first. Each is read when it is reached.

    Args:
        before: the id of a run: only those that come after it in this order.
    """
    for second, names in groupby(_ids(), key=lambda name: name[:19]):
        if before is not None and second > before[:19]:
            continue
        # A name has no fractions of seconds.
        records = sorted(map(read_record, map(_path, names)), key=lambda record: record.start_s, reverse=True)
        begin = next((at + 1 for at, record in enumerate(records) if record.run == before), 0)
        yield from records[begin:]


def find(run: str) -> RunRecord | None:
    """Return the run of exactly that id, or None; the id may be any text, also a path out of the folder."""
    # A cluster's name, which is within the id, has no slash; an id that comes from elsewhere may have one.
    if "/" in run or "\0" in run or _ID.fullmatch(run) is None or not _is_own_folder(run):
        return None
    return read_record(_path(run))


def resolve(text: str | None = None) -> RunRecord:
    """Return the run that a text means: by default the newest.

    Args:
        text: a run's id, its folder, a beginning or an end of the id, or the run's name, that no other run has.

    Raises:
        InvalidInput: there is no such run, or several.
    """
    ids = list(_ids())
    if not ids:
        remedy = f"Run a cell with %%distributed, or set {paths.RUNS_VARIABLE} to the folder that has them."
        raise InvalidInput("A run must have been recorded.", f"none in {paths.runs_dir()}", remedy)
    if text is None:
        return next(newest_first())
    name = Path(text).name if Path(text).parent == paths.runs_dir() else text
    if name in ids:
        return read_record(_path(name))
    found = [run for run in ids if name and (run.startswith(name) or run.endswith(name))]
    found = found or [run for run in ids if text and read_labels(_path(run)).name == text]
    if len(found) == 1:
        return read_record(_path(found[0]))
    rule = "A run is named by its id, by a beginning or an end of it, or by its name, that no other run has."
    if not found:
        raise InvalidInput(rule, f"{text!r}, which is no run", "%ddl runs lists them, and so does jupyter ddl runs.")
    shown = ", ".join(found[:_AMBIGUOUS_SHOWN])
    rest = f" and {len(found) - _AMBIGUOUS_SHOWN:,} more" if len(found) > _AMBIGUOUS_SHOWN else ""
    raise InvalidInput(rule, f"{text!r}, which may be {shown}{rest}", "Write more of it.")


def read_record(path: Path) -> RunRecord:
    """Return the record of the run in a folder, without what is missing or broken."""
    content = _content(path / "run.json")
    ranks, world_size = content.get("ranks"), content.get("world_size")
    if not (isinstance(ranks, list) and all(map(_is_count, ranks))):
        ranks = list(rank_files(path, _LOG))
    outcome, model, options = content.get("outcome"), content.get("model"), content.get("options")
    script, world_id, labels = content.get("script"), content.get("world_id"), read_labels(path)
    return RunRecord(
        path=path,
        run=path.name,
        start_s=as_number(content.get("start_s")) or _made_s(path),
        ranks=tuple(sorted(ranks)),
        world_size=world_size if _is_count(world_size) else max(ranks, default=-1) + 1,
        state=outcome[:_MOST_CHARACTERS] if isinstance(outcome, str) else _state(content, path.name),
        seconds=as_number(content.get("seconds")),
        samples_per_s=as_number(content.get("samples_per_s"), finite=False),
        loss=as_number(content.get("loss"), finite=False),
        model=model[:_MOST_CHARACTERS] if isinstance(model, str) else None,
        computes_on=_computes_on(content),
        options=options if isinstance(options, dict) else {},
        world_id=world_id if isinstance(world_id, str) else None,
        fault=_fault(content.get("fault")),
        script=script[:_MOST_CHARACTERS] if isinstance(script, str) else None,
        name=labels.name,
        note=labels.note,
        tags=labels.tags,
        parameters={**readable(content.get("parameters")), **labels.parameters},
        **origin_in(content),
    )


def single_rank_samples_per_s(model: str, computes_on: str) -> float | None:
    """Return one rank's samples/s with a model, on the same kind of device, in the newest run that has it.

    Args:
        model: as `events.MetricsSample.model` names it.
        computes_on: as `RunRecord.computes_on`.
    """
    for record in islice(newest_first(), _SEARCHED):
        rate = record.samples_per_s
        # A share of NaN, of infinity or of zero means nothing.
        alone = len(record.ranks) == 1 and rate is not None and math.isfinite(rate) and rate > 0
        if alone and record.model == model and record.computes_on == computes_on:
            return rate
    return None


def describe_device(device: str, threads: int) -> str:
    """Return the kind of device of a rank, without its number."""
    kind = re.sub(r"^GPU \S+ \((.*)\)$", r"\1", device)
    return f"{kind}, {threads} threads"


def count() -> int:
    """Return how many runs of this user's there are."""
    return len(_ids())


def _is_run(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of the folder of runs is a run: a folder, not a link, named as we name them."""
    return _ID.fullmatch(entry.name) is not None and entry.is_dir(follow_symlinks=False)


def foreign() -> int:
    """Return how many runs of other users the folder of runs holds: they are not listed."""
    return sum(not is_own for _, is_own in _entries())


def _entries() -> list[tuple[str, bool]]:
    """Return the names that are run ids, and whether each folder is this user's."""
    try:
        with os.scandir(paths.runs_dir()) as entries:
            found = [entry for entry in entries if _is_run(entry)]
            return [(entry.name, entry.stat(follow_symlinks=False).st_uid == os.geteuid()) for entry in found]
    except OSError:
        # Not made yet, or no folder.
        return []


def _ids() -> list[str]:
    return sorted((name for name, is_own in _entries() if is_own), reverse=True)


def _is_own_folder(run: str) -> bool:
    try:
        status = os.lstat(_path(run))
    except OSError:
        # ENAMETOOLONG too.
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _path(run: str) -> Path:
    return paths.runs_dir() / run


def _content(file: Path) -> dict[str, Any]:
    try:
        return untrusted_files.read_object(file)
    except (OSError, ValueError):
        # Not written yet, cut by a kill, or something else in its place: the record is made from what else is there.
        return {}


def _computes_on(content: dict[str, Any]) -> str | None:
    devices, threads = content.get("devices"), content.get("threads")
    if not isinstance(devices, dict) or not _is_count(threads):
        return None
    device = next(iter(devices.values()), None)
    return describe_device(device[:_MOST_CHARACTERS], threads) if isinstance(device, str) else None


def _fault(content: object) -> Fault | None:
    """Return the fault in run.json; None where there is none, or it is invalid."""
    try:
        return None if content is None else record_of(Fault, content)
    except ValueError:
        return None


def _is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a number of ranks, threads or the like."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def as_number(value: object, *, finite: bool = True) -> float | None:
    """Return a JSON value as a float; None where it is no number, or too large."""
    number = None if isinstance(value, bool) else number_in(value)
    if not isinstance(number, int | float):
        return None
    return float(number) if math.isfinite(number) or not finite else None


def _start_s(run: str) -> float:
    match = _ID.fullmatch(run)
    try:
        return time.mktime(time.strptime(match[1], _TIME)) if match else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _made_s(path: Path) -> float:
    """Return when a run without a whole run.json began: within the second of its name, as its folder says."""
    second_s = _start_s(path.name)
    with suppress(OSError):
        return min(max(path.stat(follow_symlinks=False).st_mtime, second_s), second_s + _END_OF_SECOND_S)
    return second_s


def _state(content: dict[str, Any], run: str) -> str:
    """Return the state of a run that has no outcome."""
    session = content.get("session")
    if not content and time.time() - _start_s(run) < _BEGINNING_S:
        # run.json may be written after the ranks have begun.
        return RUNNING
    lives = process_identity.lives(session)
    if lives is None and not process_identity.is_of_an_earlier_boot(session):
        return UNKNOWN
    return RUNNING if lives else CUT_OFF
