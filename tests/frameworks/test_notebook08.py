"""Notebook 08: Keras and JAX on the ranks, a rank that fails in it included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from jupyter_ddl.cli import demo

if TYPE_CHECKING:
    from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "08-keras-and-jax-on-the-ranks.ipynb"


def test_keras_trains_on_jax_by_itself_and_by_horovods_api(capsys: pytest.CaptureFixture[Any]) -> None:
    pytest.importorskip("jax")
    figures = demo.run(NOTEBOOK, n=2)
    told = capsys.readouterr().out
    assert figures["ranks"] == 2
    assert figures["mean"] == 0.5
    assert figures["accuracy"] > 0.95
    assert len(figures["checksums"]) == 1
    assert "Rank 1 of 2" in told
    assert "a broken image" in told
    assert "trained on: all ranks hold" in told


def test_notebook_08_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
