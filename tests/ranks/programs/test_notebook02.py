"""Notebook 02: a program as it stands, the same one written out, and one process's, on real ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "02-no-changes-at-all.ipynb"


@pytest.mark.mpi
@pytest.mark.slow
def test_all_ways_come_to_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)  # its own asserts are the test
    assert figures["ranks"] == 2
    told = shown.splitlines()
    assert sum(line.startswith("   [0-1] weights ") for line in told) == 1, "\n".join(told)
    # Told by --auto, by --explain, with --batch global, and by the solution of exercise 2.
    assert sum("Distributed over 2 ranks:" in line for line in told) == 4, "\n".join(told)
    assert any(line.endswith("hvd.init()  # connects the ranks") for line in told)
