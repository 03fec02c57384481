"""Training on ranks equals one process with the global batch: every optimizer, model, precision and way to train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ranks.mpirun import WORLDS
from ranks.numerics_world import World, world_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# The norm of a tensor's difference after 20 steps. float32 rounds a sum of shards otherwise than the sum of the whole
# batch; Adam and AdamW divide by the root of squares that start at zero, which magnifies a rounding of the first steps.
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
TOLERANCE_ADAM = {"float32": 1e-3, "float64": 1e-10}


@pytest.fixture(scope="module", params=WORLDS)
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "numerics_equality_program.py", tmp_path_factory)


def tolerance(precision: str, optimizer: str) -> float:
    return (TOLERANCE_ADAM if optimizer in ("Adam", "AdamW") else TOLERANCE)[precision]


def assert_equal_to_one_process(world: World, precision: str) -> list[tuple[str, ...]]:
    """Check what every rank found of every case, and return the cases: model, optimizer and way."""
    every: list[dict[str, Any]] = world.every(precision)
    for rank in every:
        for case, found in rank.items():
            assert found["dtypes"] == [precision], case
            assert found["iterations"] == 20, case
            assert found["identical"], f"{case}: weights and optimizer state must be the same bits on all ranks"
            assert found["moved"] > 0.03, f"{case}: every tensor must have been trained"
            assert found["difference"] < tolerance(precision, case.split()[1]), case
    return [tuple(case.split()) for case in every[0]]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_twenty_steps_equal_one_process_with_the_global_batch(world: World, precision: str) -> None:
    cases = assert_equal_to_one_process(world, precision)
    assert [len(set(kind)) for kind in zip(*cases, strict=True)] == [3, 5, 3], "every model, optimizer and way"


def test_without_an_exchange_the_comparison_fails(world: World) -> None:
    for rank in world.every("without_exchange"):
        for optimizer, difference in rank.items():
            if world.size == 1:
                assert difference == 0.0, optimizer
            else:
                assert difference > 100 * tolerance("float32", optimizer), optimizer
