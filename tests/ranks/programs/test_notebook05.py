"""Notebook 05: the programs of four courses, as they were taught, on real ranks."""

from __future__ import annotations

import re
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
    told = capsys.readouterr().out
    # In one line where both ranks printed it at the same time, else in two.
    weights = re.findall(r"^ +\[(0-1|0|1)\] +weights (\w+)$", told, re.MULTILINE)
    of_rank = {rank: [checksum for ranks, checksum in weights if rank in ranks] for rank in "01"}
    assert len(of_rank["0"]) == len(COURSES), told
    assert of_rank["0"] == of_rank["1"]
    first, second = figures["accuracies"]
    assert sorted(first) == sorted(COURSES)
    assert first == pytest.approx(second)
    assert all(accuracy > LEAST_ACCURACY for accuracy in first.values()), first


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
