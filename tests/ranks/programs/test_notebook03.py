"""Notebook 03: what large batches do, measured on real ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "03-what-large-batches-do.ipynb"


@pytest.mark.mpi
@pytest.mark.slow
def test_a_scaled_rate_makes_up_for_a_large_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Its last cells assert what they show.
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    assert len(figures["accuracy"]) == 6, shown
    assert "learning rate  0.05 -> 0.1 (linear)" in shown
    assert figures["accuracy"]["256, same rate"] < figures["accuracy"]["32 images"]
