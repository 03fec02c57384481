"""Notebook 04: a pipeline sharded, cached and advised on, on real ranks."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from jupyter_ddl.cli import demo

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "04-feeding-the-ranks.ipynb"


@pytest.mark.slow
@pytest.mark.mpi
def test_each_image_comes_to_one_rank_and_the_pipeline_gets_faster(capsys: pytest.CaptureFixture[str]) -> None:
    figures = demo.run(NOTEBOOK, n=2)
    told = capsys.readouterr().out.splitlines()
    assert figures["images"] == 1600
    assert figures["how"] == "by file (8 files)"
    assert figures["seconds"]["second"] < figures["seconds"]["first"]
    assert figures["accuracy"] > 0.7
    assert sum(line.startswith("   [0-1] weights ") for line in told) == 1, "\n".join(told)
    assert any("the pipeline as it is" in line for line in told), "the table of advise"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
