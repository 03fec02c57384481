"""What a user sees of four faults, and when: ours, `%%px` of plain ipyparallel, and nbdistributed where installed.

The figure is the time from the fault until the next cell works, with the variables as they were; BOUND_S where it never
does. Each fault runs on two new ranks a side, in a process of its own, once; what hangs is ended.

nbdistributed is asked in an environment of its own, named by NBDISTRIBUTED_PYTHON, and in a process namespace of its
own: at its end it kills by name what it did not start.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.faults_side import FAULTS
from benchmarks.harness import Row, report
from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUND_S = 60.0
START_S = 180.0
PEER_VARIABLE = "NBDISTRIBUTED_PYTHON"
_PROGRAM = Path(__file__).with_name("faults_side.py")


def main() -> None:
    """Run the benchmark."""
    os.environ.update(mpi.launch_environment(mpi.find_mpi()))
    commands: dict[str, list[str]] = {side: [sys.executable] for side in ("ours", "px")}
    not_measured: dict[str, str] = {}
    python = os.environ.get(PEER_VARIABLE)
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if not python:
        not_measured["nbdistributed"] = f"{PEER_VARIABLE} names no Python that has it"
    elif subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        not_measured["nbdistributed"] = "no process namespace can be made here, and it kills by name"
    else:
        commands["nbdistributed"] = [*apart, python]
    figures: dict[str, dict[str, float]] = {side: {} for side in commands}
    for fault in FAULTS:
        for side, command in commands.items():
            seconds, told = measure(command, side, fault)
            figures[side][fault] = seconds
            print(f"  {fault} | {side} | {told}", file=sys.stderr, flush=True)
    rows = {
        side: [Row(fault, (figures["ours"][fault],), (figures[side][fault],), "s") for fault in FAULTS]
        for side in commands
        if side != "ours"
    }
    also = rows.get("nbdistributed", [])
    report("faults_peers", rows["px"], aim=1.0, better="lower", also=also, not_measured=not_measured)


def measure(python: Sequence[str], side: str, fault: str) -> tuple[float, str]:
    """Run one fault on one side; return the seconds until its next cell works, and what its user saw."""
    # nbdistributed starts its ranks with the `python` that is first on PATH.
    path = os.pathsep.join((str(Path(python[-1]).parent), os.environ["PATH"]))
    child = subprocess.Popen(
        [*python, str(_PROGRAM), side, fault],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd="/",
    )
    stages: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(child, stages), daemon=True).start()
    try:
        ready = _next(stages, START_S)
        assert ready is not None, f"{side} did not start"
        ended = _next(stages, BOUND_S)
        if ended is None:
            return BOUND_S, f"hung, ended after {BOUND_S:g} s"
        following = _next(stages, BOUND_S)
    finally:
        _end(child)
    after = "the next cell hung" if following is None else _after(following)
    seconds = following["seconds"] if following is not None and following["works"] else BOUND_S
    return seconds, f"{ended['seconds']:.1f} s: {ended['said'][:400]!r}; {after}"


def _after(following: dict[str, Any]) -> str:
    if following["works"]:
        return f"after {following['seconds']:.1f} s the next cell works, variables as they were"
    return f"the next cell: {following['said'][:400]!r}"


def _read(child: subprocess.Popen[str], stages: queue.Queue[dict[str, Any]]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith('{"stage"'):
            stages.put(json.loads(line))


def _next(stages: queue.Queue[dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    try:
        return stages.get(timeout=seconds)
    except queue.Empty:
        return None


def _end(child: subprocess.Popen[str]) -> None:
    """End the side's process and all that it started."""
    try:
        started = psutil.Process(child.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    child.kill()
    for process in started:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    child.wait()


if __name__ == "__main__":
    main()
