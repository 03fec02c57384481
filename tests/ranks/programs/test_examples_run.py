"""The examples of the public names do what they show, on two ranks and in a program that starts ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from examples import OF_A_QUEUE, OF_THE_KERNEL, OF_TORCH, public_names
from nbclient import NotebookClient
from ranks.kernels import without

from jupyter_ddl.server import example

if TYPE_CHECKING:
    from ranks.kernel import Kernel

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("examples_program.py")


@pytest.mark.slow
def test_the_example_notebook_trains(notebook: Kernel) -> None:
    """On the ranks that are there, in place of its own."""
    code = [cell["source"] for cell in example.notebook()["cells"] if cell["cell_type"] == "code"]
    assert ("%ddl start" in code[0], code[-1]) == (True, "%ddl stop")
    for source in code[1:-1]:
        cell = notebook.execute(source, 120)
        assert cell.error is None, cell.told
    assert notebook.execute("assert accuracy > 0.9, accuracy").error is None


@pytest.mark.slow
def test_the_example_notebook_runs_as_it_is() -> None:
    opened = nbformat.from_dict(example.notebook())
    NotebookClient(opened, timeout=300, kernel_name="python3").execute()
    assert "of the points are on the right spiral" in opened.cells[-2].outputs[0].text


def test_examples_of_ranks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(public.name not in OF_THE_KERNEL + OF_A_QUEUE + OF_TORCH for public in public_names())
    assert f"{count} examples ran" in done.stdout, done.stdout


# Runs what comes between lines of dots.
PROGRAM_OF_SESSIONS = """
import doctest, sys, jupyter_ddl
runner = doctest.DocTestRunner()
for example in sys.stdin.read().split("\\n.....\\n"):
    names = {"jupyter_ddl": jupyter_ddl}
    runner.run(doctest.DocTestParser().get_doctest(example, names, "example", None, None))
print(f"{runner.tries} lines ran")
sys.exit(runner.failures)
"""


def test_examples_of_the_kernel(tmp_path: Path) -> None:
    # In a program of its own, as users run it: a kept cluster that was detached from leaves its lease's pipes open.
    examples = [public.example for public in public_names() if public.name in OF_THE_KERNEL and public.example]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM_OF_SESSIONS],
        input="\n.....\n".join(examples),
        env={**os.environ, **without(tmp_path, "tensorflow")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(examples) > 2
    lines = sum(example.count(">>>") for example in examples)
    assert f"{lines} lines ran" in run.stdout, run.stdout
