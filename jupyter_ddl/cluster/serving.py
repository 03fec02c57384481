"""Runs in a batch job, on its first node: starts the ranks that were asked for, holds them, and ends with the job.

Runs on: the job's program.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import starting
from jupyter_ddl.cluster.ending_notes import write_note
from jupyter_ddl.cluster.job_folder import JobFolder, KernelWatch
from jupyter_ddl.cluster.jobs_known import scheduler_named
from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.cluster.spec import Served
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place import HERE
from jupyter_ddl.launch.schedulers.known import place_of_job
from jupyter_ddl.protocol.idle_stop import idle_stop_of
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.protocol.faults import Fault

# The kernel writes the job's number as soon as the scheduler has said it.
_ID_S = 60.0
_TICK_S = 1.0
# Ranks that are lost this soon are not replaced once more: the same cause may end them again and again.
_SOON_S = 60.0


class _Ended(SystemExit):
    """The job is being ended, as its scheduler said by a signal."""


def serve(path: Path) -> None:
    """Start the ranks of a job and hold them, until the job, its kernel or they end.

    Args:
        path: the job's folder.

    Raises:
        InvalidInput: the folder is not one of a job.
    """
    folder = JobFolder(path)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, _end)
    if not path.is_dir():
        raise _not_of_a_job(f"{path}, where no folder is")
    try:
        order = folder.order()
    except (OSError, ValueError) as error:
        raise _not_of_a_job(f"{path} ({error})") from error
    os.environ.setdefault(paths.RUNTIME_VARIABLE, str(path.parent.parent))
    os.environ.setdefault(paths.RUNS_VARIABLE, order.runs)
    try:
        job = _id_of(folder)
        if job is not None:
            _hold(folder, _spec(folder, job), rebuild=order.rebuild, keep=order.keep)
    except _Ended:
        print("the job is being ended", flush=True)


def _not_of_a_job(received: str) -> InvalidInput:
    return InvalidInput(
        "A job's program takes the folder of its job.",
        received,
        "%ddl submit sends such a job, and %ddl jobs lists those that there are.",
    )


def _end(_signum: int, _frame: FrameType | None) -> None:
    # Once: what ends the ranks must not be cut short.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    raise _Ended


def _id_of(folder: JobFolder) -> str | None:
    deadline_s = time.monotonic() + _ID_S
    while (job := folder.id()) is None:
        if time.monotonic() > deadline_s:
            print("the kernel that submitted this job is gone", flush=True)
            return None
        time.sleep(_TICK_S / 4)
    return job


def _spec(folder: JobFolder, job: str) -> ClusterSpec:
    order = folder.order()
    place = replace(place_of_job(os.environ) or HERE, container=order.container)
    idle_stop = None if order.idle_stop is None else idle_stop_of(order.idle_stop, f"--idle-stop {order.idle_stop}")
    spec = plan(
        order.n,
        order.gpus,
        order.threads,
        order.name,
        order.environment,
        place=place,
        idle_stop=idle_stop,
        allowed=order.allowed,
    )
    scheduler = scheduler_named(order.scheduler)
    title = order.scheduler if scheduler is None else scheduler.title
    note = spec.note if job in spec.note else f"{title} job {job}: {spec.note}"
    served = Served(order.scheduler, job, str(folder.path), order.host, order.rebuild)
    return replace(spec, note=note, served=served)


def _hold(folder: JobFolder, spec: ClusterSpec, *, rebuild: bool, keep: bool) -> None:
    watch = None if keep else KernelWatch(folder, time.monotonic())
    while True:
        if watch is not None and watch.is_gone(time.monotonic()):
            print("the kernel that submitted this job is gone", flush=True)
            return
        cluster = starting.start(spec, lambda step: print(step, flush=True))
        began_s = time.monotonic()
        try:
            fault = _ending_of(cluster, watch)
            if fault is not None and fault.subject == "idle":
                # The notebook's kernel reads it: the folder of the ranks is removed with them. Or the disk is full.
                with suppress(OSError):
                    write_note(folder.path, str(fault.facts.by), fault.facts.seconds or 0.0)
        finally:
            cluster.stop()
        if fault is None:
            print("the kernel that submitted this job is gone", flush=True)
            return
        print(describe(fault), flush=True)
        # A kernel that asks for their end wants new ones: to end the job it asks the scheduler.
        is_asked = fault.kind == "stopped"
        if fault.subject == "idle" or (not is_asked and (not rebuild or time.monotonic() - began_s < _SOON_S)):
            return


def _ending_of(cluster: Cluster, watch: KernelWatch | None) -> Fault | None:
    """Wait until the ranks have ended, and return how; None where the kernel that submitted the job is gone."""
    ended = threading.Event()
    cluster.listen(lambda event: ended.set() if isinstance(event, RankLost) else None)
    # Their events are the notebooks' to read.
    cluster.close()
    while cluster.lost is None:
        if watch is not None and watch.is_gone(time.monotonic()):
            return None
        ended.wait(_TICK_S)
    return cluster.lost.fault
