"""Starts the processes of a side of the training benchmark, with the same threads on all, and returns their figures."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).parents[1]
# A side that has not ended by then hangs.
HANGS_S = 300
Figures = dict[str, float]


@dataclass(frozen=True)
class Environment:
    """An interpreter with its packages, and the MPI that starts its ranks."""

    python: Path
    mpi: mpi.Mpi


def our_environment() -> Environment:
    """Return the one that this process runs in."""
    return Environment(Path(sys.executable), mpi.find_mpi())


def on_ranks(
    environment: Environment, n: int, module: str, arguments: Sequence[str], settings: Mapping[str, str] | None = None
) -> Figures:
    """Run a module of the benchmarks on n MPI ranks, one thread and one core each; return what rank 0 answered.

    Unbound, ranks now and then take twice the time for a whole training, on whichever side (docs/performance.md).

    Args:
        environment: the interpreter and MPI.
        n: ranks.
        module: e.g. "benchmarks.training_program".
        arguments: of the module; "ANSWER" stands for the file that it writes.
        settings: variables on top of the usual ones.
    """
    variables = {**threads(1), **mpi.launch_environment(environment.mpi), **(settings or {})}
    launch = ["core" if word == "none" else word for word in mpi.launch_command(environment.mpi, n)]
    return _run([[*launch, str(environment.python), "-m", module, *arguments]], [variables])


def as_workers(n: int, arguments: Sequence[str]) -> Figures:
    """Run training_program as n workers of tf.distribute on loopback, one thread each; return what the first answered.

    Args:
        n: workers.
        arguments: of training_program; "ANSWER" stands for the file that it writes.
    """
    workers = [f"localhost:{port}" for port in _free_ports(n)]
    variables = [
        {
            **threads(1),
            "TF_USE_LEGACY_KERAS": "1",
            "TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}}),
        }
        for i in range(n)
    ]
    command = [sys.executable, "-m", "benchmarks.training_program", *arguments]
    return _run([command] * n, variables)


def as_one_process(n_threads: int, arguments: Sequence[str]) -> Figures:
    """Run training_program as one process with n threads; return what it answered.

    Args:
        n_threads: as many as all ranks of the other side have together.
        arguments: of training_program; "ANSWER" stands for the file that it writes.
    """
    command = [sys.executable, "-m", "benchmarks.training_program", *arguments]
    return _run([command], [{**threads(n_threads), "TF_USE_LEGACY_KERAS": "1"}])


def threads(n: int) -> dict[str, str]:
    """Return the variables that give a process n threads."""
    return dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"), str(n))


def _run(commands: Sequence[Sequence[str]], variables: Sequence[Mapping[str, str]]) -> Figures:
    """Run commands side by side and return the answer that one of them writes."""
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-bench-") as name, ExitStack() as stack:
        answer, printed = Path(name, "answer.json"), Path(name, "printed")
        sink = stack.enter_context(printed.open("w"))
        processes = [
            subprocess.Popen(
                [str(answer) if word == "ANSWER" else word for word in command],
                env={**_base_environment(), **settings},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
            for command, settings in zip(commands, variables, strict=True)
        ]
        statuses = _wait(processes)
        if any(statuses):
            tail = printed.read_text(errors="replace")[-3000:]
            sys.exit(f"{' '.join(commands[0])} ended with {statuses} ({HANGS_S} s allowed):\n{tail}")
        figures: Figures = json.loads(answer.read_text())
    return figures


def _base_environment() -> dict[str, str]:
    # No GPU on any side: this compares the frameworks on the cores.
    own = {"PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return {**os.environ, **own}


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Return how all ended; where one fails or takes too long, the others are ended."""
    deadline_s = time.monotonic() + HANGS_S
    while any(process.poll() is None for process in processes):
        if time.monotonic() > deadline_s or any(process.poll() for process in processes):
            for process in processes:
                process.terminate()  # mpiexec ends its ranks, then itself
            return [process.wait() for process in processes]
        time.sleep(0.05)
    return [process.returncode for process in processes]


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for listener in sockets:
            listener.bind(("localhost", 0))
        return [int(listener.getsockname()[1]) for listener in sockets]
