"""Notebook 10: trainings in less memory, scikit-learn's tasks on the ranks, and a program for IBM's DDL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "10-larger-models-and-machine-learning.ipynb"
# Sums of gradients in another order, in single precision, through Adam's four steps of 0.001.
FARTHEST = 1e-4


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_trainings_take_less_memory_and_give_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    assert (figures["ranks"], figures["models"]) == (2, 1)
    assert figures["with_mib"] < figures["without_mib"] / 2, figures
    assert figures["farthest"] < FARTHEST
    assert tuple(figures["kinds"]) == ("float16", "float32")
    assert figures["same_search"]
    assert figures["accuracy"] > 0.9
    assert all(share > 0.9 for share in figures["right"].values())
    assert "With --memory " in shown
    assert "this rank has 1.00 of Adam's state" in shown
    assert "this rank has 0.50 of Adam's state" in shown
