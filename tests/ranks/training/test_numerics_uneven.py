"""Ranks with different amounts of data: no hang, and one process whose k-th step has all ranks' k-th batches."""

from __future__ import annotations

import pytest
from ranks.mpirun import WORLDS
from ranks.numerics_world import World, world_of

pytestmark = pytest.mark.mpi

# The norm of a tensor's difference, as for plain training (test_numerics_equality).
TOLERANCE = 1e-5
TOLERANCE_FLOAT64 = 1e-10


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_of("numerics_training_program.py", request.param, tmp_path_factory)


def assert_weighed_by_samples(world: World) -> int:
    """Check what every rank found of every case, and return the number of cases."""
    every = world.every("uneven")
    for rank in every:
        for case, found in rank.items():
            assert found["difference"] < TOLERANCE, case
            assert found["identical"], f"{case}: all ranks end with the same weights and optimizer state"
            assert found["moved"] > 0.1, case
    return len(every[0])


def test_uneven_batches_weigh_as_their_samples(world: World) -> None:
    assert assert_weighed_by_samples(world) == (9 if world.size == 2 else 3)


def test_uneven_batches_in_float64(world: World) -> None:
    for rank in world.every("uneven_in_float64"):
        for case, found in rank.items():
            assert found["difference"] < TOLERANCE_FLOAT64, case
            assert found["identical"], case


def test_ranks_of_equal_weight_would_be_noticed(world: World) -> None:
    for difference in world.every("uneven_and_weighed_alike"):
        assert (difference > 1000 * TOLERANCE) == (world.size > 1)


def test_several_passes_a_step_with_uneven_batches(world: World) -> None:
    for found in world.every("uneven_passes"):
        assert found["difference"] < TOLERANCE
        assert found["identical"]


def test_metrics_are_those_of_all_data(world: World) -> None:
    for rank in world.every("uneven_metrics"):
        names = {"loss", "accuracy", "val_loss", "val_accuracy"}
        assert rank["found"].keys() == rank["wanted"].keys() == names
        for name in names:
            # Means of float32 numbers, added up in another order.
            assert rank["found"][name] == pytest.approx(rank["wanted"][name], rel=1e-5), name
