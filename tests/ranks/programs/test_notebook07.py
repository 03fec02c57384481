"""Notebook 07: TensorFlow's strategies and Horovod on the same ranks."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from jupyter_ddl.cli import demo

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "07-where-the-time-goes.ipynb"
# Of ten classes, after 200 steps.
LEAST_ACCURACY = 0.6


@pytest.mark.mpi
@pytest.mark.slow
def test_both_ways_learn_and_all_strategies_are_measured() -> None:
    figures = demo.run(NOTEBOOK, n=2)
    assert figures["ranks"] == 2
    assert set(figures["images_per_second"]) == {"horovod", "mirrored", "multiworker", "parameter-server"}
    assert all(value > 0 for value in figures["images_per_second"].values())
    assert set(figures["accuracy"]) == {"parameter server", "allreduce"}
    assert all(value > LEAST_ACCURACY for value in figures["accuracy"].values()), figures


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
