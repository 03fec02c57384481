"""Notebook 05: the programs of four courses, as they were taught, on real ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "05-horovod-programs-as-they-are.ipynb"
COURSES = ["Queensland", "NPTEL", "IT4Innovations", "IBM"]
# Of ten classes. Fashion-MNIST, where a machine has it, is harder than digits.
LEAST_ACCURACY = 0.7


@pytest.mark.mpi
@pytest.mark.slow
def test_every_course_trains_one_model_on_all_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    # In one line where both ranks printed it at the same time, else in two.
    weights = re.findall(r"^ +\[(0-1|0|1)\] +weights (\w+)$", shown, re.MULTILINE)
    of_rank = {rank: [checksum for ranks, checksum in weights if rank in ranks] for rank in "01"}
    assert len(of_rank["0"]) == len(COURSES), shown
    assert of_rank["0"] == of_rank["1"]
    first, second = figures["accuracies"]
    assert sorted(first) == sorted(COURSES)
    assert first == pytest.approx(second)
    assert all(accuracy > LEAST_ACCURACY for accuracy in first.values()), first
