"""Notebook 07: a timeline, a run's curves, and TensorFlow's strategies and Horovod on the same ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "07-where-the-time-goes.ipynb"
# Of ten classes, after 160 steps.
LEAST_ACCURACY = 0.6


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_ways_learn_and_the_late_rank_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    assert figures["ranks"] == 2
    assert set(figures["images_per_second"]) == {"horovod", "mirrored", "multiworker", "parameter-server"}
    assert all(value > 0 for value in figures["images_per_second"].values())
    assert set(figures["accuracy"]) == {
        "parameter server, asynchronous",
        "parameter server, synchronous",
        "allreduce",
    }
    assert all(value > LEAST_ACCURACY for value in figures["accuracy"].values()), figures
    assert figures["curves"] == 3, shown  # of each rank, and of all
    late = sum(map(ord, "who is late?")) % 2
    assert "The ranks waited " in shown
    assert f" in all for rank {late}" in shown
