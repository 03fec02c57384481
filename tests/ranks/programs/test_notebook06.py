"""Notebook 06: ranks that raise, wait, are killed and come apart, and a training that resumes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "06-when-something-fails.ipynb"


@pytest.mark.mpi
@pytest.mark.slow
def test_each_fault_is_named_and_the_ranks_live_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    assert figures == {"ranks": 2, "epochs_after_the_cut": 3}, shown
    assert "still there: 100 and the sum of all ranks is 2.0" in shown
    assert "The cell has stalled" in shown
    assert "HorovodAllreduce: rank 0 waits in it for rank 1" in shown
    assert "the setup cell's: True  another cell's: False" in shown
    assert "resumes after epoch 2 of 5" in shown
    # The table of runs that the notebook ends with.
    outcomes = re.findall(r"^ +20\d\d-\S+ +\S.*? +(?:0-1|0|1)  +(\w+(?: out)?)  +[\d.]+ s", shown, re.MULTILINE)
    assert set(outcomes) == {"finished", "failed", "stalled", "timed out", "interrupted", "lost"}, shown
    assert not (tmp_path / "checkpoints-06").exists()
