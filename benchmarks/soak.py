"""Cells with random faults for minutes: none may hang, none may be told wrongly, and nothing may grow.

    python -m benchmarks.soak                     200 cells, 20 minutes at most, with TensorFlow (`make soak`)
    python -m benchmarks.soak --cells 20 --bare   without it

After each cell the next one must work. The JSON line says how often each fault came, how long it took until it was told
(the longest), and what processes, descriptors, threads and memory of this process were at the beginning and at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import ClusterLost, DdlError, RankError, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.kernel.session import Session

RANKS = 2
# Longer than any of the faults may take to be told, on a busy machine too.
HUNG_S = 90.0
_SETTLED_CELLS = 10
_HOROVOD = "import horovod.tensorflow as hvd, tensorflow as tf\nhvd.init()\n"
_GROWN_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Fault:
    """What a cell does, and what must be told of it.

    Attributes:
        code: the cell; `{victim}` is the rank that has the fault.
        error: what the cell must raise; None where it must finish.
        told: what the error must say; `{victim}` as above.
        weight: how often it comes, among the others.
        timeout_s: the cell's.
        outside: done to the cluster while the cell runs, half a second after its beginning.
    """

    code: str
    error: type[DdlError] | None
    told: str = ""
    weight: float = 1.0
    timeout_s: float | None = None
    outside: Callable[[Session, int], None] | None = None


def _kill(part: str) -> Callable[[Session, int], None]:
    def kill(session: Session, _victim: int) -> None:
        lease = ClusterFolder(session.name).lease()
        processes = lease.children(recursive=True) if lease is not None else []
        next(process for process in processes if part in " ".join(process.cmdline()[:5])).kill()

    return kill


def _freeze(session: Session, victim: int) -> None:
    pid = session.ranks[victim].pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(pid, signal.SIGCONT)


_WAIT = "import os, time\n"
_ON_VICTIM = _WAIT + "if rank == {victim}:\n    time.sleep(0.3)\n    "
_SLEEP = "import time; time.sleep(60)"
_LOST = "rank {victim} on "
FAULTS = {
    "none": Fault("rank * 2", None, weight=3),
    "much output": Fault("for i in range(5000): print(i, rank)\nrank * 2", None),
    "a rank raises": Fault(_ON_VICTIM + "1 / 0\ntime.sleep(60)", RankError, "Rank {victim} of 2", weight=3),
    "all ranks raise": Fault("raise ValueError(rank)", RankError, "ValueError", weight=2),
    "interrupt in Python": Fault("while True: pass", RunTimedOut, timeout_s=0.5, weight=2),
    "interrupt in a sleep": Fault("import time; time.sleep(600)", RunTimedOut, timeout_s=0.5, weight=2),
    "a rank frozen for 2 s": Fault("import time; time.sleep(3)\nrank * 2", None, outside=_freeze),
    "kill -9": Fault(_ON_VICTIM + "os.kill(os.getpid(), 9)\ntime.sleep(60)", ClusterLost, _LOST, weight=1.5),
    "segfault": Fault(_ON_VICTIM + "import ctypes; ctypes.string_at(0)\ntime.sleep(60)", ClusterLost, _LOST),
    "abort": Fault(_ON_VICTIM + "os.abort()\ntime.sleep(60)", ClusterLost, _LOST),
    "mpiexec killed": Fault(
        "import time; time.sleep(60)", ClusterLost, "mpiexec", outside=_kill("prterun"), weight=0.5
    ),
    "controller killed": Fault(
        "import time; time.sleep(60)", ClusterLost, "controller", outside=_kill("cluster.controller"), weight=0.5
    ),
    "blocked in MPI": Fault(
        "from mpi4py import MPI\nif rank == {victim}: MPI.COMM_WORLD.recv(source=0, tag=7)\nrank",
        ClusterLost,
        "rank {victim} did not answer the release",
        timeout_s=0.5,
        weight=0.5,
    ),
}
WITH_TENSORFLOW = {
    "collective": Fault(_HOROVOD + "float(hvd.allreduce(tf.ones(1), op=hvd.Sum)[0])", None, weight=3),
    "a rank raises outside the collective": Fault(
        _HOROVOD + "if rank == {victim}: 1 / 0\nhvd.allreduce(tf.ones(1))", RankError, "Rank {victim} of 2", weight=2
    ),
    "interrupt in a collective": Fault(
        _HOROVOD + "import time\nif rank == {victim}: time.sleep(600)\nhvd.allreduce(tf.ones(1))",
        RunTimedOut,
        timeout_s=3.0,
        weight=2,
    ),
}


@dataclass
class Soak:
    """What has come of it so far."""

    problems: list[str] = field(default_factory=list)
    told_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    rebuilt_s: list[float] = field(default_factory=list)

    def one(self, session: Session, name: str, fault: Fault, victim: int) -> None:
        """Run a cell with a fault, and one without."""
        expected, code = fault.told.format(victim=victim), fault.code.replace("{victim}", str(victim))
        began_s = time.monotonic()
        raised: DdlError | None = None
        helper = threading.Timer(0.5, fault.outside or (lambda *_: None), (session, victim))
        helper.start()
        try:
            session.run(code, timeout_s=fault.timeout_s)
        except DdlError as error:
            raised = error
        seconds = time.monotonic() - began_s
        helper.join()
        self.told_s[name].append(seconds)
        is_right = type(raised) is (fault.error or type(None)) and expected in str(raised or "")
        if not is_right or seconds > HUNG_S:
            self.problems.append(f"{name}, {seconds:.1f} s: {raised!r}")
        began_s = time.monotonic()
        try:
            values = [session.run("rank * 2").ranks[rank].value for rank in range(RANKS)]
        except DdlError as error:
            values = [repr(error)]
        if values != [str(rank * 2) for rank in range(RANKS)]:
            self.problems.append(f"the cell after {name}: {values}")
        if isinstance(raised, ClusterLost):
            self.rebuilt_s.append(time.monotonic() - began_s)


def measure() -> dict[str, float]:
    """Return what must not grow."""
    me = psutil.Process()
    return {
        "processes": len(me.children(recursive=True)),
        "descriptors": me.num_fds(),
        "threads": me.num_threads(),
        "rss_bytes": me.memory_info().rss,
    }


def soak(cells: int, seconds: float, seed: int, *, bare: bool) -> dict[str, Any]:
    """Run cells with random faults; return what came of it."""
    chance = random.Random(seed)
    faults = FAULTS if bare else FAULTS | WITH_TENSORFLOW
    result = Soak()
    before: dict[str, float] = {}
    with (
        folders(bare=bare) as environment,
        jupyter_ddl.start(n=RANKS, name=f"soak-{os.getpid()}", gpus="none", env=environment) as session,
    ):
        session.run("ready = rank", setup=True)
        until_s = time.monotonic() + seconds
        done = 0
        while done < cells and time.monotonic() < until_s:
            if done == min(_SETTLED_CELLS, cells // 2):
                before = measure()
            name = chance.choices(list(faults), [fault.weight for fault in faults.values()])[0]
            result.one(session, name, faults[name], chance.randrange(RANKS))
            done += 1
            print(f"  {done} of {cells}: {name}, {result.told_s[name][-1]:.1f} s", file=sys.stderr, flush=True)
        after = measure()
    for what in ("processes", "descriptors", "threads"):
        if after[what] > before[what]:
            result.problems.append(f"{what}: {before[what]} and then {after[what]}")
    if after["rss_bytes"] > before["rss_bytes"] + _GROWN_BYTES:
        result.problems.append(f"memory: {before['rss_bytes']} bytes and then {after['rss_bytes']}")
    return {
        "name": "soak",
        "cells": done,
        "holds": not result.problems and done >= cells,
        "problems": result.problems,
        "longest_s": {name: round(max(took), 2) for name, took in sorted(result.told_s.items())},
        "times": {name: len(took) for name, took in sorted(result.told_s.items())},
        "next_cell_after_a_loss_s": round(max(result.rebuilt_s, default=0.0), 2),
        "before": before,
        "after": after,
    }


@contextmanager
def folders(*, bare: bool) -> Iterator[dict[str, str]]:
    """Keep the runs out of the user's; give the ranks' variables: bare ones find no TensorFlow to import."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        kept = os.environ.get(paths.RUNS_VARIABLE)
        os.environ[paths.RUNS_VARIABLE] = f"{name}/runs"
        Path(name, "tensorflow.py").write_text("raise ImportError('left out')\n")
        try:
            yield {"PYTHONPATH": os.pathsep.join([name, os.environ.get("PYTHONPATH", "")])} if bare else {}
        finally:
            if kept is None:
                del os.environ[paths.RUNS_VARIABLE]
            else:
                os.environ[paths.RUNS_VARIABLE] = kept


def main() -> None:
    """Run the soak that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--bare", action="store_true", help="without TensorFlow and Horovod")
    arguments = parser.parse_args()
    result = soak(arguments.cells, arguments.seconds, arguments.seed, bare=arguments.bare)
    print(json.dumps(result), flush=True)
    sys.exit(0 if result["holds"] else 1)


if __name__ == "__main__":
    main()
