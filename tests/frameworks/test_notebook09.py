"""Notebook 09: PyTorch on the ranks, a rank that fails in it included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

from jupyter_ddl.cli import demo

if TYPE_CHECKING:
    import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "09-pytorch-and-jax-on-the-ranks.ipynb"


def test_the_ranks_train_one_model_and_survive_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    figures = demo.run(NOTEBOOK, n=2)
    told = capsys.readouterr().out
    assert figures["ranks"] == 2
    assert figures["accuracy"] > 0.95
    assert len(figures["sums"]) == 1
    assert "Rank 1 of 2" in told
    assert "a broken image" in told
    assert "the loss is 0." in told


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
