"""Keras's "Simple MNIST convnet" with `jupyter_ddl.auto`: the same weights, and with dropout the same accuracy."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest
from ranks.numerics_world import World, world_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

# Of Adam, as for the small programs (test_auto_equality).
TOLERANCE = 1e-3
ONE_POINT = 0.01


@pytest.mark.slow
def test_without_dropout_a_global_batch_gives_the_weights_of_one_process(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for found in world_of("auto_mnist_program.py", 2, tmp_path_factory).every("without_dropout"):
        assert found["identical"]
        assert found["difference"] < TOLERANCE
        together, alone = found["accuracies"]
        assert together == pytest.approx(alone, abs=1e-3)
        assert alone > 0.5, "it must have learned"


@pytest.mark.slow
def test_over_five_seeds_the_accuracy_is_within_a_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_s = 2400
    monkeypatch.setenv("NUMERICS_HANGS_S", str(limit_s))
    world = World("auto_mnist_seeds_program.py", 2, tmp_path, limit_s)
    alone = statistics.mean(world.one("alone"))
    assert alone > 0.9
    for batch in ("global", "per-rank"):
        assert statistics.mean(world.one(batch)) == pytest.approx(alone, abs=ONE_POINT), batch
