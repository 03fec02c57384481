"""What a user sees of four faults, and when: ours against what else runs cells on ranks, each in its own environment.

python -m benchmarks.faults_peers [--framework torch] [--fault NAME] [--pairs 1]

With TensorFlow the other side is `%%px` of plain ipyparallel; with PyTorch, nbdistributed and Accelerate's
notebook_launcher, in environments that NBDISTRIBUTED_PYTHON and ACCELERATE_PYTHON name. Ours runs in this one.

The figure is the time from the fault until the next cell works, with the variables as they were (on PyTorch: and with a
collective); BOUND_S where it never does. Each fault runs on two new ranks a side, in a process of its own; what hangs
is ended. notebook_launcher has new processes for each cell, so its variables are the notebook's, never those of ranks.

nbdistributed gets a process namespace of its own: at its end it kills by name what it did not start.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.faults_side import FAULTS
from benchmarks.harness import Row, report, rounds
from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUND_S = 60.0
START_S = 180.0
PYTHON_VARIABLES = {"nbdistributed": "NBDISTRIBUTED_PYTHON", "notebook_launcher": "ACCELERATE_PYTHON"}
_PROGRAM = Path(__file__).with_name("faults_side.py")
_APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("tensorflow", "torch"), default="tensorflow")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this one (may be given again)")
    parser.add_argument("--pairs", type=int, default=1, help="how often each side runs (default: 1)")
    parser.add_argument("--rest", type=float, default=0.0, help="seconds without a cell before the fault (default: 0)")
    arguments = parser.parse_args()
    faults = arguments.fault or list(FAULTS)
    os.environ.update(mpi.launch_environment(mpi.find_mpi()))
    if arguments.framework == "torch":
        ours, (commands, not_measured) = "ours_torch", _peers()
    else:
        ours, commands, not_measured = "ours", {"px": [sys.executable]}, {}
    commands = {ours: [sys.executable], **commands}
    rows: dict[str, list[Row]] = {side: [] for side in commands}
    for fault in faults:
        sides = {side: partial(_told, command, side, fault, arguments.rest) for side, command in commands.items()}
        figures = rounds(sides, arguments.pairs, show="{:.2f} s".format)
        for side in commands:
            rows[side].append(Row(f"{fault} | {side}", tuple(figures[ours]), tuple(figures[side]), "s"))
    judged = [row for side in commands if side != ours for row in rows[side]]
    if judged:
        report(f"faults_peers {arguments.framework}", judged, aim=1.0, better="lower", not_measured=not_measured)
    else:
        print(json.dumps({"name": "faults_peers", "not_measured": not_measured}))


def _peers() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return how each peer's Python is called, and why which cannot be measured here."""
    commands, not_measured = {}, {}
    for side, variable in PYTHON_VARIABLES.items():
        python = os.environ.get(variable)
        before = _APART if side == "nbdistributed" else []
        if not python:
            not_measured[side] = f"{variable} names no Python that has it"
        elif before and subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
            not_measured[side] = "no process namespace can be made here, and it kills by name"
        else:
            commands[side] = [*before, python]
    return commands, not_measured


def _told(command: Sequence[str], side: str, fault: str, rest_s: float) -> float:
    """Measure one fault on one side, and print what its user saw."""
    seconds, told = measure(command, side, fault, rest_s)
    print(f"  {fault} | {side} | {told}", file=sys.stderr, flush=True)
    return seconds


def measure(python: Sequence[str], side: str, fault: str, rest_s: float = 0.0) -> tuple[float, str]:
    """Run one fault on one side; return the seconds until its next cell works, and what its user saw.

    Before the fault the notebook runs nothing for `rest_s`, in which ours makes ranks that stand by.
    """
    # nbdistributed starts its ranks with the `python` that is first on PATH.
    path = os.pathsep.join((str(Path(python[-1]).parent), os.environ["PATH"]))
    child = subprocess.Popen(
        [*python, str(_PROGRAM), side, fault, str(rest_s)],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd="/",
    )
    stages: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(child, stages), daemon=True).start()
    try:
        ready = _next(stages, START_S + rest_s)
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
