"""Notebook 09: PyTorch and JAX on the ranks, a rank that fails in each included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course import NOTEBOOKS, run_with_solutions

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = NOTEBOOKS / "09-pytorch-and-jax-on-the-ranks.ipynb"


@pytest.mark.slow
def test_all_ways_train_one_model_and_survive_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax")
    figures, shown = run_with_solutions(NOTEBOOK, tmp_path, capsys)
    assert (figures["ranks"], figures["mean"]) == (2, 0.5)
    assert min(figures["torch_accuracy"], figures["jax_accuracy"]) > 0.95, figures
    assert (len(figures["sums"]), len(figures["checksums"])) == (1, 1)
    on_torch, on_jax = shown.split("-- Other ranks, for JAX\n")
    for half, error in ((on_torch, ": a broken image"), (on_jax, ": another broken image")):
        assert "Rank 1 of 2" in half, shown
        assert error in half, shown
    assert "the loss is 0." in on_torch
    assert "this rank holds 2241 of 4482 weights" in on_torch, shown
    assert "this rank holds 4546 of 8642 weights of Keras's" in on_jax, shown
    assert "trained on: all ranks hold" in on_jax
