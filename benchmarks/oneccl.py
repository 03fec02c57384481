"""Horovod's allreduce on two ranks of cores: built with oneCCL, against this environment's, which is built with MPI.

The one with oneCCL is built on first use, into a folder of its own in jupyter_ddl's cache, for minutes. CCL_ROOT
names oneCCL's wheels, as docs/install.md has it ("Horovod"). A ratio below 1 says that oneCCL is worth its build.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.harness import PAIRS, Row, report, rounds
from jupyter_ddl import paths
from jupyter_ddl.host.private_folders import private_folder

RANKS = 2
PROGRAM = Path(__file__).with_name("oneccl_program.py")
DDL = (sys.executable, "-m", "jupyter_ddl.cli")
# One turn takes a quarter of a minute.
TIMEOUT_S = 180


def built_with_oneccl() -> Path:
    """Return the folder of a Horovod with oneCCL, built if it is not there yet."""
    bench = private_folder(paths.cache_dir() / "bench", variable=paths.CACHE_VARIABLE)
    folder = bench / f"horovod-ccl-{sys.implementation.cache_tag}"
    command = [*DDL, "build-horovod", "--gpu", "none", "--cpu", "ccl", "--target", str(folder)]
    subprocess.run(command, stdout=sys.stderr, check=True)
    return folder


def exchanged(library: str, variables: dict[str, str]) -> dict[int, float]:
    """Return the seconds of one allreduce by the tensor's megabytes, on ranks that are started for it.

    Args:
        library: "ccl" or "mpi", as oneccl_program.py takes it.
        variables: of the environment, by which the ranks find their Horovod.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [*DDL, "run", "-n", str(RANKS), str(PROGRAM), library, str(answer)]
        subprocess.run(command, env={**os.environ, **variables}, stdout=sys.stderr, check=True, timeout=TIMEOUT_S)
        return {int(megabytes): took_s for megabytes, took_s in json.loads(answer.read_text()).items()}


def show(figures: dict[int, float]) -> str:
    """Return one turn's figures as text."""
    return ", ".join(f"{megabytes} MB {1000 * took_s:.4g} ms" for megabytes, took_s in figures.items())


def main() -> None:
    """Build the one, and compare both at each size."""
    where = {paths.HOROVOD_VARIABLE: str(built_with_oneccl())}
    figures = rounds({"ccl": partial(exchanged, "ccl", where), "mpi": partial(exchanged, "mpi", {})}, PAIRS, show=show)
    rows = []
    for megabytes in figures["mpi"][0]:
        ours, theirs = (tuple(turn[megabytes] for turn in figures[library]) for library in ("ccl", "mpi"))
        rows.append(Row(f"{megabytes} MB", ours, theirs, "s"))
    report("oneccl", rows, 1.0, "lower")


if __name__ == "__main__":
    main()
