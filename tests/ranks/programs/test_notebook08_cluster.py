"""Notebook 08: a notebook as a job, of which one runs here; scripts of schedulers; profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "08-from-the-notebook-to-the-cluster.ipynb"


@pytest.mark.mpi
@pytest.mark.slow
def test_a_notebook_becomes_jobs_and_runs_as_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    assert figures == {"ranks": 2, "state": "finished", "script": True}, shown
    for line in ("#SBATCH --nodes=2", "#PBS -l select=2", "#BSUB", "#SBATCH --array=0-2", "#SBATCH --constraint=a100"):
        assert line in shown, line
    assert "2 ranks, whose numbers sum to 1" in shown
    assert "The profile a100 allows at most 4 nodes. Received: 8 nodes." in shown
