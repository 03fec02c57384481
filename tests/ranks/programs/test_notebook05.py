"""Notebook 05: the programs of four courses, as they were taught, on real ranks."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from jupyter_ddl.cli import demo

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "05-horovod-programs-as-they-are.ipynb"
COURSES = ["Queensland", "NPTEL", "IT4Innovations", "IBM"]
# Of ten classes. Fashion-MNIST, where a machine has it, is harder than digits.
LEAST_ACCURACY = 0.7


@pytest.mark.mpi
@pytest.mark.slow
def test_every_course_trains_one_model_on_all_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    figures = demo.run(NOTEBOOK, n=2)
    told = capsys.readouterr().out.splitlines()
    # One line for both ranks: the checksum of their weights is the same.
    assert sum(line.startswith("   [0-1] weights ") for line in told) == len(COURSES), "\n".join(told)
    first, second = figures["accuracies"]
    assert sorted(first) == sorted(COURSES)
    assert first == pytest.approx(second)
    assert all(accuracy > LEAST_ACCURACY for accuracy in first.values()), first


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
