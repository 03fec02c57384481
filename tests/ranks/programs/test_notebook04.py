"""Notebook 04: a pipeline sharded, cached and advised on, on real ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "04-feeding-the-ranks.ipynb"


@pytest.mark.slow
@pytest.mark.mpi
def test_each_image_comes_to_one_rank_and_the_pipeline_gets_faster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    told = shown.splitlines()
    assert figures["images"] == 1600
    assert figures["how"] == "by file (8 files)"
    assert figures["seconds"]["second"] < figures["seconds"]["first"]
    assert figures["accuracy"] > 0.7
    assert sum(line.startswith("   [0-1] weights ") for line in told) == 1, "\n".join(told)
    assert any("the pipeline as it is" in line for line in told), "the table of advise"
