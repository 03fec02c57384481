"""Training with what Keras does besides, on ranks against one process: clipping, averages, precision, XLA, tapes.

And with ranks that have different amounts of data: no hang, and one process whose k-th step has all ranks' k-th
batches.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version
from ranks.mpirun import WORLDS
from ranks.numerics_world import World, world_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# The norm of a tensor's difference after 20 steps in float32, as for plain training (test_numerics_equality).
TOLERANCE = 1e-5
TOLERANCE_FLOAT64 = 1e-10


@pytest.fixture(scope="module", params=WORLDS)
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "numerics_training_program.py", tmp_path_factory)


def as_in_one_process(world: World, finding: str, tolerance: float = TOLERANCE) -> list[dict[str, Any]]:
    """Check that every rank ended every case as one process and as all ranks do; return what they found."""
    every: list[dict[str, Any]] = world.every(finding)
    for rank in every:
        for case, found in rank.items():
            assert found["difference"] < tolerance, case
            assert found["identical"], f"{case}: all ranks end with the same weights and optimizer state"
    return every


def assert_features_as_in_one_process(world: World) -> int:
    """Check what every rank found of every case, and return the number of cases."""
    every = as_in_one_process(world, "features")
    for rank in every:
        for case, found in rank.items():
            assert found["iterations"] == (5 if case == "gradient accumulation" else 20), case
            moved = found["moved"][2:] if case == "frozen layer" else found["moved"]
            assert min(moved) > 0.03, f"{case}: every tensor must have been trained"
            assert case != "frozen layer" or found["moved"][:2] == [0.0, 0.0]
    return len(every[0])


def test_what_keras_does_besides_is_as_in_one_process(world: World) -> None:
    # Keras 3.12 has no OptimizerMap.
    lacking = world.size < 4 and Version(version("keras")) < Version("3.13")
    assert assert_features_as_in_one_process(world) == {1: 6, 2: 10, 4: 5}[world.size] - lacking


def assert_each_setting_has_an_effect(world: World) -> None:
    for name, effect in world.every("effects")[0].items():
        # A loss scale must have none.
        assert (effect > 1000 * TOLERANCE) == (name != "fixed loss scale"), name


def test_each_setting_has_an_effect_that_would_be_noticed(world: World) -> None:
    assert_each_setting_has_an_effect(world)


def test_several_optimizers_in_one_step(world: World) -> None:
    for found in world.every("several_optimizers"):
        assert found["difference"] < TOLERANCE
        assert found["identical"]


def assert_ways_of_compiling_alike(world: World) -> int:
    """Check what every rank found of every way, and return the number of ways."""
    every = as_in_one_process(world, "ways_of_compiling")
    assert all(found["iterations"] == 20 for rank in every for found in rank.values())
    return len(every[0])


def test_ways_of_compiling(world: World) -> None:
    assert assert_ways_of_compiling_alike(world) == (3 if world.size == 2 else 2)


def test_horovods_own_tape_with_keras_variables(world: World) -> None:
    as_in_one_process(world, "distributed_tape")


def test_horovods_own_broadcast_with_keras_variables(world: World) -> None:
    assert world.one("broadcast_variables") == {"identical before": world.size == 1, "root's": True}


# --- reduced precision ------------------------------------------------------------------------------------------


def test_float16_on_the_wire(world: World) -> None:
    # float16 has 11 bits: a gradient is off by up to 2^-11 = 5e-4 of the largest that were added, several times over.
    # As a share of how far each tensor moved.
    for found in world.every("compressed"):
        assert found["relative"] < 5e-3
        assert found["identical"]


# As a share of how far each tensor moved. Activations and gradients of a shard are rounded to 11 bits (float16) or 8
# (bfloat16: 4e-3) in other places than those of the whole batch, in each of 20 steps.
OF_POLICIES = {"mixed_float16": 1e-2, "mixed_bfloat16": 8e-2}


def assert_policies_as_in_one_process(world: World) -> set[str]:
    """Check what every rank found of every policy, and return the policies."""
    every = world.every("mixed_policies")
    for rank in every:
        for policy, found in rank.items():
            assert found["variables"] == ["float32"]
            assert found["computed"] == policy.removeprefix("mixed_")
            assert found["iterations"] == 20
            assert found["identical"]
            assert found["relative"] < OF_POLICIES[policy]
            first, last = found["falls"]
            assert last < first
    return set(every[0])


def test_mixed_policies(world: World) -> None:
    assert assert_policies_as_in_one_process(world) == {"mixed_float16"}


def test_a_step_that_overflows_on_one_rank_is_skipped_on_all(world: World) -> None:
    for rank in world.every("overflow_on_one_rank"):
        assert rank["alone"] == [512.0, 19], "one process skips one step and halves its scale of 1024"
        for case in ("fit", "loop, scaled outside"):
            assert rank[case]["state"] == rank["alone"], case
            assert rank[case]["identical"], case
            assert rank[case]["relative"] < 1e-2, case  # as mixed_float16 above


def test_a_mixed_policy_scales_a_plain_distributed_optimizer(world: World) -> None:
    for found in world.every("policy_and_plain_optimizer"):
        assert found["scales"]
        alone, together = found["states"]
        assert alone == together
        assert alone[1] < 20, "some step must have overflown"
        assert found["identical"]
        assert found["relative"] < 1e-2


# --- ranks with different amounts of data -----------------------------------------------------------------------------


def assert_weighed_by_samples(world: World) -> int:
    """Check what every rank found of every case, and return the number of cases."""
    every = as_in_one_process(world, "uneven")
    assert all(found["moved"] > 0.1 for rank in every for found in rank.values())
    return len(every[0])


def test_uneven_batches_weigh_as_their_samples(world: World) -> None:
    assert assert_weighed_by_samples(world) == (4 if world.size == 2 else 3)


def test_uneven_batches_in_float64(world: World) -> None:
    as_in_one_process(world, "uneven_in_float64", TOLERANCE_FLOAT64)


def test_ranks_of_equal_weight_would_be_noticed(world: World) -> None:
    for difference in world.every("uneven_and_weighed_alike"):
        assert (difference > 1000 * TOLERANCE) == (world.size > 1)


def test_several_passes_a_step_with_uneven_batches(world: World) -> None:
    for found in world.every("uneven_passes"):
        assert found["difference"] < TOLERANCE
        assert found["identical"]


def test_averaged_metrics_are_those_of_all_data(world: World) -> None:
    for rank in world.every("uneven_metrics"):
        names = {"loss", "accuracy", "top2", "val_loss", "val_accuracy", "val_top2"}
        assert rank["found"].keys() == rank["wanted"].keys() == names
        for name in names:
            # Means of float32 numbers, added up in another order.
            assert rank["found"][name] == pytest.approx(rank["wanted"][name], rel=1e-5), name
        if world.size > 1:
            for name in ("loss", "val_loss"):
                assert rank["unaveraged"][name] != pytest.approx(rank["wanted"][name][-1], rel=1e-3), name
