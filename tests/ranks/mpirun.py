"""Runs a Python program on real MPI ranks, as `mpiexec` does, and hands back what each rank found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_ddl.host.mpi import find_mpi, launch_command, launch_environment

REPOSITORY = Path(__file__).parents[2]
# World sizes of what has one MPI job a size. `make test` runs one of them: a job of TensorFlow costs 10 s and more.
WORLDS = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]
PAIR = WORLDS[:2]


def run_program(program: Path, n: int, folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    """Run `program FOLDER` on n ranks; rank K leaves its answers in FOLDER/rank-K.json.

    Raises:
        AssertionError: it failed or took too long; the text ends with what the ranks printed last.
    """
    mpi = find_mpi()
    environment = {
        **os.environ,
        **launch_environment(mpi),
        # Programs import what several folders share from here.
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(REPOSITORY), str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
        ),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_NUM_INTRAOP_THREADS": "1",
    }
    printed = folder / "printed.txt"
    with printed.open("w") as sink:
        mpiexec = subprocess.Popen(
            [*launch_command(mpi, n), sys.executable, str(program), str(folder)],
            env=environment,
            stdout=sink,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            code = mpiexec.wait(timeout_s)
        except subprocess.TimeoutExpired:
            mpiexec.terminate()  # prterun ends its ranks, then itself
            mpiexec.wait(30)
            code = -1
    tail = "\n".join(printed.read_text(errors="replace").splitlines()[-60:])
    assert code == 0, f"{program.name} on {n} ranks ended with {code} ({timeout_s:.0f} s allowed):\n{tail}"
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(n)]
