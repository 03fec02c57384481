"""The demo, which runs notebook 01: on real ranks, and what it says when no training happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from jupyter_ddl.cli import demo
from jupyter_ddl.errors import DemoFailed, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

DATASET = "digits (1,618 + 179 images) from scikit-learn, scans of 8x8 enlarged to 28x28"


def figures(**last: Any) -> dict[str, Any]:
    one = {"ranks": 1, "images_per_second": 3000.0, "loss": 0.1, "test_accuracy": 0.95}
    several = {"ranks": 2, "images_per_second": 5400.0, "loss": 0.2, "test_accuracy": 0.96}
    return {"dataset": "digits", "rows": [one, {**several, **last}], "scaling_efficiency": 0.9}


def notebook(folder: Path, *cells: str) -> Path:
    path = folder / "notebook.ipynb"
    make = {True: nbformat.v4.new_markdown_cell, False: nbformat.v4.new_code_cell}
    nbformat.write(nbformat.v4.new_notebook(cells=[make[cell.startswith("#")](cell) for cell in cells]), path)
    return path


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_the_demo_trains_without_a_network(offline: None, n: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli.demo", "-n", str(n)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *told, last = done.stdout.splitlines()
    summary = json.loads(last)
    assert summary.keys() == {"world_size", "dataset", "images_per_second", "test_accuracy", "seconds"}
    assert summary["world_size"] == n
    assert summary["dataset"] == DATASET
    assert summary["images_per_second"] > 0
    assert summary["test_accuracy"] >= demo.LEAST_ACCURACY
    assert summary["seconds"] > 0
    # It says what it does while it works, and each heading once.
    headings = [line.removeprefix("-- ") for line in told if line.startswith("-- ")]
    assert headings[:4] == ["From one GPU to all of them", "Start the ranks", "The data", "The model"]
    everyone = "[0]" if n == 1 else "[0-1]"
    assert f"   {everyone} Hello from the ranks" in told
    assert sum(line.startswith(f"   {everyone} weights ") for line in told) == 1, "all ranks hold the same weights"
    assert told[-5].split() == ["ranks", "images/s", "loss", "accuracy"]
    assert [line.split()[0] for line in told[-4:-2]] == ["1", str(n)]


def test_the_demo_leaves_the_exercises_out(tmp_path: Path) -> None:
    path = notebook(tmp_path, "figures = {'cells': 1}", "figures['cells'] += 1")
    book = nbformat.read(path, as_version=4)
    book.cells[1].metadata["tags"] = ["check"]
    nbformat.write(book, path)
    assert demo.run(path, n=1) == {"cells": 2}
    assert demo.run(path, n=1, leaving_out=demo.EXERCISES) == {"cells": 1}


# --- no training ---------------------------------------------------------------------------------------------


def test_an_error_in_a_cell_is_told_without_a_wall_of_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path, "print('so far')", "raise ValueError('no GPU today')", "print('never')")
    assert demo.main(["--notebook", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == "   so far\n"
    assert told.err == "\nThe demo failed. A cell raised:\nValueError: no GPU today\n"


def test_a_cell_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "CELL_TIMEOUT_S", 1)
    with pytest.raises(DemoFailed) as raised:
        demo.run(notebook(tmp_path, "# Sleep", "import time", "time.sleep(60)"), n=2)
    assert str(raised.value) == "Every cell must end within 1 s. Received: one that did not, under 'Sleep'."


def test_a_kernel_that_dies(tmp_path: Path) -> None:
    with pytest.raises(DemoFailed) as raised:
        demo.run(notebook(tmp_path, "## Death", "import os", "os._exit(1)"), n=2)
    assert str(raised.value) == "The notebook's kernel must live to the end. Received: it died, under 'Death'."


def test_a_notebook_without_figures(tmp_path: Path) -> None:
    with pytest.raises(DemoFailed) as raised:
        demo.run(notebook(tmp_path, "1 + 1"), n=2)
    assert str(raised.value) == "A cell raised:\nNameError: name 'figures' is not defined"


def test_a_notebook_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.ipynb"
    with pytest.raises(InvalidInput) as raised:
        demo.run(path, n=2)
    assert str(raised.value) == (
        f"The demo runs a notebook of the repository. Received: {path}. Run it in a clone: make demo."
    )


def test_the_number_of_ranks_is_the_notebook_s_parameter(tmp_path: Path) -> None:
    path = notebook(tmp_path, "n = None", "figures = {'n': n}")
    book = nbformat.read(path, as_version=4)
    book.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(book, path)
    assert demo.run(path, n=3) == {"n": 3}


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"ranks": 1}, "All ranks must have trained. Received: 1 of 2."),
        ({"images_per_second": 0}, "Images must have gone through the model. Received: 0 a second."),
        (
            {"images_per_second": float("nan")},
            "Images must have gone through the model. Received: nan a second.",
        ),
        ({"test_accuracy": 0.1}, "The model must have learned: test accuracy 0.9 at least. Received: 0.100."),
        ({"test_accuracy": float("nan")}, "The model must have learned: test accuracy 0.9 at least. Received: nan."),
    ],
)
def test_figures_that_are_no_training(last: dict[str, Any], text: str) -> None:
    demo.check(figures(), n=2)
    with pytest.raises(DemoFailed) as raised:
        demo.check(figures(**last), n=2)
    assert str(raised.value) == text


def test_the_table() -> None:
    assert demo.table(figures()).splitlines() == [
        "ranks   images/s     loss  accuracy",
        "    1      3,000   0.1000     0.950",
        "    2      5,400   0.2000     0.960",
        "scaling efficiency 90%, digits",
    ]
