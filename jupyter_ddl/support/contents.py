"""Gathers what the file for support holds: of one run, of its cluster where that is still there, and of this machine.

Runs on: the terminal's process, Jupyter server.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from jupyter_ddl import __version__, paths
from jupyter_ddl.cluster import registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.commands.runs import fault_text
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import StallReported
from jupyter_ddl.protocol.parameters import readable
from jupyter_ddl.runs.ending import Ending
from jupyter_ddl.runs.logs import log_files
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import RUNNING, UNKNOWN
from jupyter_ddl.support.environment import shown_parameters, shown_variables
from jupyter_ddl.support.stacks import stacks_now
from jupyter_ddl.views.line import plain_lines
from jupyter_ddl.views.runs_table import run_line
from jupyter_ddl.views.stalls import render_stall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.runs.store import RunRecord

_END_BYTES = 64 << 10
_CLUSTER_END_BYTES = 256 << 10
# A log of each of a thousand ranks says no more than those of the ranks that failed, and a few others.
_LOGS = 32
_CLUSTER_LOGS = 64
_STALLS = 20
_LIVES = (RUNNING, UNKNOWN)
# What run.json has of the code itself, and of a script's command line.
_OF_CODE = ("script", "arguments", "first_line")


@dataclass(frozen=True)
class Part:
    """One file of the file for support.

    Attributes:
        name: in the file, with "/" between its parts.
        content: what it holds.
        note: what that is, one clause.
    """

    name: str
    content: bytes
    note: str


def parts_of_run(record: RunRecord, *, with_code: bool) -> Iterator[Part]:
    """Yield what is known of a run.

    Args:
        record: which.
        with_code: the cell, or the script's command, may be in it.
    """
    ending, stalls = Ending(), list[str]()
    for event in ending.noted(run_events(record.path)):
        if isinstance(event, StallReported) and len(stalls) < _STALLS:
            stalls.append(render_stall(event.fault))
    fault = ending.fault(record)
    told = [run_line(record), *([] if fault is None else [fault_text(fault, ending, record)])]
    yield _text("run/outcome.txt", told, "how it ended, and why; a traceback quotes lines of the cell")
    content = {name: value for name, value in _record_of(record).items() if with_code or name not in _OF_CODE}
    if "parameters" in content:
        content["parameters"] = shown_parameters(readable(content["parameters"]))
    yield Part("run/run.json", _json(content), "its record: ranks, hosts, devices, versions, options")
    if stalls:
        yield _text("run/stalls.txt", stalls, "where ranks were when they waited for others")
    world = content.get("world_id")
    now = stacks_now(world, record.ranks) if record.state in _LIVES and isinstance(world, str) else None
    if now is not None:
        yield _text("run/stacks.txt", [now], "where its ranks are now; it quotes lines of the cell")
    if with_code:
        yield _end_of(record.path / "cell.py", "run/cell.py", "the code", _CLUSTER_END_BYTES)
    logs = log_files(record.path)
    for rank in _ranks_with_logs(record, fault, logs):
        note = "the end of the rank's log; a traceback quotes lines of the cell"
        yield _end_of(logs[rank], f"run/{logs[rank].name}", note, _END_BYTES)


def parts_of_cluster(record: RunRecord) -> Iterator[Part]:
    """Yield the ends of what mpiexec, controller and ranks of a run's cluster printed outside cells, if it is there."""
    content = _record_of(record)
    name, world = content.get("cluster"), content.get("world_id")
    if not isinstance(name, str) or "/" in name or world is None:
        return
    clusters = paths.clusters_dir()
    folders = [ClusterFolder(name, clusters / host) for host in registry.names(clusters)]
    for logs in [folder.log_dir for folder in folders if folder.settings().get("world_id") == world]:
        found = (log for log in registry.names(logs) if log.endswith(".log") and untrusted_files.is_file(logs / log))
        for log in islice(found, _CLUSTER_LOGS):
            yield _end_of(logs / log, f"cluster/{log}", "the end of what it printed", _CLUSTER_END_BYTES)


def parts_of_machine(environment: Mapping[str, str], doctor: Iterable[str], facts: object) -> Iterator[Part]:
    """Yield what is known of this machine.

    Args:
        environment: this process's.
        doctor: its lines.
        facts: the same for programs, as JSON values.
    """
    versions = f"jupyter_ddl {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield _text("machine/doctor.txt", [versions, *doctor], "the checks of this machine")
    yield Part("machine/doctor.json", _json(facts), "the same for programs")
    shown = shown_variables(environment)
    yield Part("machine/environment.json", _json(shown), "variables of MPI, Horovod, CUDA and schedulers; no secrets")


def _ranks_with_logs(record: RunRecord, fault: Fault | None, logs: Mapping[int, Path]) -> Sequence[int]:
    """Return the ranks whose logs are taken: those that the fault names first."""
    of_fault = [] if fault is None else [rank for rank in fault.ranks if rank in logs]
    others = [rank for rank in record.ranks if rank in logs and rank not in of_fault]
    return list(islice((*of_fault, *others), _LOGS))


def _record_of(record: RunRecord) -> dict[str, Any]:
    """Return what run.json holds; an empty dict where it is missing, or not one of ours."""
    try:
        return untrusted_files.read_object(record.path / "run.json", only_own=True)
    except (OSError, ValueError):
        return {}


def _end_of(path: Path, name: str, note: str, limit: int) -> Part:
    try:
        with untrusted_files.open_file(path, only_own=True) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit))
            content = file.read(limit)
    except OSError as error:
        return Part(name, f"{error.strerror}\n".encode(), note)
    return Part(name, content, note if size <= limit else f"{note}, of {size:,} bytes")


def _text(name: str, paragraphs: Iterable[str], note: str) -> Part:
    lines = plain_lines("\n".join(paragraphs))
    return Part(name, ("\n".join(lines) + "\n").encode(errors="backslashreplace"), note)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
