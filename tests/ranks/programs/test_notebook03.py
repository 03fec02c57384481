"""Notebook 03: what large batches do, measured on real ranks."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from jupyter_ddl.cli import demo

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "03-what-large-batches-do.ipynb"


@pytest.mark.mpi
@pytest.mark.slow
def test_a_scaled_rate_makes_up_for_a_large_batch(capsys: pytest.CaptureFixture[str]) -> None:
    # Its last cells assert what they show.
    figures = demo.run(NOTEBOOK, n=2)
    told = capsys.readouterr().out
    assert len(figures["accuracy"]) == 6, told
    assert "learning rate  0.05 -> 0.1 (linear)" in told
    assert figures["accuracy"]["256, same rate"] < figures["accuracy"]["32 images"]


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
