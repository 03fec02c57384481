"""Starts the processes of a side: ranks by `jupyter ddl run`, or one process with several devices.

Runs on: a terminal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import DdlError, InvalidInput
from jupyter_ddl.host.cores import cores_of, usable_cores
from jupyter_ddl.host.process_tree import parent_death_signal
from jupyter_ddl.scaling.points import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIRRORED = "mirrored"
RIVALS = (MIRRORED, "multiworker", "parameter-server", "grpc")
PROGRAM = Path(__file__).parents[1] / "scaling_program" / "main.py"
_DESCRIBE = "jupyter_ddl.scaling_program.describe"
# A side that has not ended by then hangs.
HANGS_S = 1800
_SHOWN_LINES = 25


@dataclass(frozen=True)
class Plan:
    """What all sides have in common.

    Attributes:
        model: a name, or a file.
        size: pixels along an edge, or tokens.
        warm_up: steps that are not timed.
        steps: steps that are.
        threads: of each rank.
        run_options: more options of `jupyter ddl run`.
    """

    model: str
    size: int
    warm_up: int
    steps: int
    threads: int
    run_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Described:
    """A model's name, its source, and its default batch of a rank and size."""

    name: str
    source: str
    batch_size: int
    size: int


def describe(model: str) -> Described:
    """Return what a model is, by its name or from a file.

    Raises:
        DdlError: there is no such model, or the file defines none.
    """
    asked = subprocess.run([sys.executable, "-m", _DESCRIBE, model], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise DdlError(asked.stderr.strip())
    return Described(**json.loads(asked.stdout))


def measure(plan: Plan, side: str, ranks: int, batch_size: int) -> dict[str, Any]:
    """Run a side once and return what it found.

    Raises:
        DdlError: it failed; says what it printed last.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-scaling-") as folder:
        out = Path(folder, "found.json")
        program = _program(plan, side, ranks, batch_size, out)
        variables = {"TF_CPP_MIN_LOG_LEVEL": "2", **({} if side == OURS else {"TF_USE_LEGACY_KERAS": "1"})}
        if side == MIRRORED:
            cores = set().union(*(cores_of(i, ranks) for i in range(ranks)))
            command = [sys.executable, *program, "--cores", ",".join(map(str, sorted(cores)))]
            threads = str(plan.threads * ranks)
            # As many in all as the ranks of other sides have together.
            names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
            variables |= dict.fromkeys(names, threads)
        else:
            command = [*_run_command(plan, ranks, variables), *program]
        found: dict[str, Any] = started(command, variables, out, f"{side} on {ranks} ranks")
    return found


def started(command: Sequence[str], variables: Mapping[str, str], out: Path, name: str) -> Any:
    """Run a command that writes JSON into a file; return that.

    Raises:
        DdlError: it failed; says what it printed last.
    """
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=HANGS_S,
            # Ranks end with this process, however it ends.
            preexec_fn=parent_death_signal(signal.SIGTERM),
            check=False,
        )
        printed, how = ended.stdout, f"exit status {ended.returncode}"
    except subprocess.TimeoutExpired as late:
        printed, how = (late.stdout or b"").decode(errors="replace"), f"not ended after {HANGS_S} s"
    if not out.is_file():
        last = "\n".join(printed.splitlines()[-_SHOWN_LINES:])
        raise DdlError(
            f"Each point must be measured. Received: {name}, {how}. Leave it out, or correct what it says:\n{last}"
        )
    return json.loads(out.read_text())


def check_rivals(names: Sequence[str]) -> None:
    """Refuse strategies that are not there, or lack what they run on.

    Raises:
        InvalidInput: one is unknown, or Keras 2 is not installed.
    """
    from importlib.util import find_spec

    for name in names:
        if name not in RIVALS:
            raise InvalidInput("A side is one of TensorFlow's strategies.", name, f"Pass some of {','.join(RIVALS)}.")
    if names and find_spec("tf_keras") is None:
        raise InvalidInput("TensorFlow's strategies are measured with Keras 2.", "no tf_keras", "pip install tf-keras")


def threads_for(ranks: Sequence[int]) -> int:
    """Return the threads of a rank, the same at all numbers of ranks: one that has more is faster."""
    return max(1, usable_cores() // max(ranks))


def _run_command(plan: Plan, ranks: int, variables: Mapping[str, str]) -> list[str]:
    settings = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", str(ranks), "--threads", str(plan.threads)]
    return [*command, *settings, *plan.run_options, "--"]


def _program(plan: Plan, side: str, ranks: int, batch_size: int, out: Path) -> list[str]:
    settings = {
        "out": out,
        "replicas": ranks,
        "batch-size": batch_size,
        "size": plan.size,
        "warm-up": plan.warm_up,
        "steps": plan.steps,
    }
    return [
        *(str(PROGRAM), side, plan.model),
        *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
    ]
