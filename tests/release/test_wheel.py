"""A release in a user's environment: a cell on two ranks without TensorFlow, doctor, and the panel in JupyterLab."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from course import links_of
from environments import Environment, python_of

import jupyter_ddl

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.release, pytest.mark.mpi, pytest.mark.timeout(1800)]
START = "%load_ext jupyter_ddl\n%ddl start -n 2 --framework none --standby never"
CELL = """%%distributed
from mpi4py import MPI
import numpy as np
total = np.zeros(1)
MPI.COMM_WORLD.Allreduce(np.full(1, rank + 1.0), total)
print("sum", total[0], "of", MPI.COMM_WORLD.size)"""
STOP = "%ddl stop"
IMPORT_S = 0.15


@dataclass(frozen=True)
class Pins:
    """A Python, what a user holds fixed there, and from what our package is installed."""

    python: str
    numpy: str
    jupyterlab: str
    ipykernel: str
    file: str

    def __str__(self) -> str:
        return f"python-{self.python}-{self.file}"

    def requirements(self) -> list[str]:
        """Return the pins as pip takes them."""
        pinned = {"numpy": self.numpy, "jupyterlab": self.jupyterlab, "ipykernel": self.ipykernel, "ipyparallel": "9"}
        return [f"{name}=={version}.*" for name, version in pinned.items()]


# numpy 1.26 has no wheel for Python 3.13.
PINS = [
    Pins("3.10", numpy="1.26", jupyterlab="4.4", ipykernel="6", file="wheel"),
    Pins("3.11", numpy="2", jupyterlab="4.5", ipykernel="6", file="sdist"),
    Pins("3.12", numpy="1.26", jupyterlab="4.6", ipykernel="7", file="wheel"),
    Pins("3.13", numpy="2", jupyterlab="4.6", ipykernel="7", file="sdist"),
]


def notebook_of(*cells: str) -> dict[str, Any]:
    """Return a notebook with these cells."""
    of_all = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    made = [{**of_all, "id": f"cell-{number}", "source": source} for number, source in enumerate(cells)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made}


def texts_of(cell: dict[str, Any]) -> str:
    """Return what a cell shows, as text."""
    parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell["outputs"]]
    return "\n".join("".join(part) for part in parts)


@pytest.fixture(scope="module", params=PINS, ids=str)
def installed(
    request: pytest.FixtureRequest, tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Environment, Pins]:
    """A fresh environment with a release and a user's pins; pip compiled nothing."""
    pins: Pins = request.param
    python = python_of(pins.python)
    environment = Environment.made(python, tmp_path_factory.mktemp("user"), tools)
    file = request.getfixturevalue(pins.file)
    environment.install(f"{file}[lab,mpi]", *pins.requirements())
    return environment, pins


def test_a_release_works_with_the_pins_of_users(installed: tuple[Environment, Pins]) -> None:
    environment, pins = installed
    pip = environment.run("python", "-m", "pip", "check")
    assert "No broken requirements" in pip
    imported = environment.run("python", "-c", "import jupyter_ddl as j; print(j.__version__, j.__file__)")
    version, _, file = imported.strip().partition(" ")
    assert version == jupyter_ddl.__version__
    assert file.startswith(str(environment.folder))
    _imports_at_once(environment)
    _has_found_what_is_missing(environment, pins)
    _copies_the_course(environment)
    _trains_on_two_ranks(environment)
    _shows_the_panel(environment)


def _imports_at_once(environment: Environment) -> None:
    timed = "import time; t = time.perf_counter(); import jupyter_ddl; print(time.perf_counter() - t)"
    seconds = [float(environment.run("python", "-c", timed)) for _ in range(7)]
    assert statistics.median(seconds) < IMPORT_S, seconds


def _has_found_what_is_missing(environment: Environment, pins: Pins) -> None:
    told = json.loads(environment.run("jupyter", "ddl", "doctor", "--json", rc=1))
    checks = {check["name"]: check for check in told["checks"]}
    problems = {name for name, check in checks.items() if check["status"] == "problem"}
    assert problems == {"TensorFlow", "Keras", "Horovod", "Allreduce"}
    assert checks["Python"]["text"].startswith(pins.python)
    assert checks["MPI"]["text"].startswith("openmpi 5.")
    assert "pip install 'tensorflow" in checks["TensorFlow"]["remedy"]


def _copies_the_course(environment: Environment) -> None:
    told = environment.run("jupyter", "ddl", "workshop", "course", "--no-lab")
    assert told.count(": copied\n") == 11
    count, dead = links_of(environment.folder / "course")
    assert count > 300
    assert dead == []


def _trains_on_two_ranks(environment: Environment) -> None:
    (environment.folder / "cell.ipynb").write_text(json.dumps(notebook_of(START, CELL, STOP)))
    environment.run("jupyter", "nbconvert", "--to", "notebook", "--execute", "--output", "done", "cell.ipynb")
    _, cell, stopped = json.loads((environment.folder / "done.ipynb").read_text())["cells"]
    assert texts_of(cell) == "[0-1] sum 3.0 of 2"
    assert "2 ranks ended" in texts_of(stopped)


def _shows_the_panel(environment: Environment) -> None:
    listed = environment.run("jupyter", "labextension", "list").splitlines()
    (line,) = [line for line in listed if " jupyter-ddl " in line]
    assert "enabled" in line
    assert "OK" in line
    servers = environment.run("jupyter", "server", "extension", "list")
    assert re.search(r"jupyter_ddl\.server\s+(\x1b\[\d+m)?OK", servers), servers
