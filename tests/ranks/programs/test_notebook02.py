"""Notebook 02: a program as it stands, the same one written out, and one process's, on real ranks."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from jupyter_ddl.cli import demo

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "02-no-changes-at-all.ipynb"


@pytest.mark.mpi
@pytest.mark.slow
def test_all_ways_come_to_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    figures = demo.run(NOTEBOOK, n=2)  # its own asserts are the test
    assert figures["ranks"] == 2
    told = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("   [0-1] weights ") for line in told) == 1, "\n".join(told)
    # Told by --auto, by --explain, and with --batch global.
    assert sum("Distributed over 2 ranks:" in line for line in told) == 3
    assert any(line.endswith("hvd.init()  # connects the ranks") for line in told)


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
