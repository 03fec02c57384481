"""What the exchange makes of gradients, with every argument of a DistributedOptimizer, against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.mpirun import WORLDS
from ranks.numerics_world import World, world_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# Relative to a tensor's largest element: a few roundings, since the ranks' sums are made in another order than NumPy's.
TOLERANCE = {"float32": 1e-6, "float64": 1e-14}


@pytest.fixture(scope="module", params=WORLDS)
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "numerics_exchange_program.py", tmp_path_factory)


def test_average_sum_and_adasum(world: World) -> None:
    found = world.one("ops")
    assert len(found) == 12
    for case, error in found.items():
        assert error < TOLERANCE[case.split()[1]], case


def test_without_an_exchange_every_op_would_fail(world: World) -> None:
    for rank in world.every("ops_differ"):
        assert rank.keys() == {"Average", "Sum", "Adasum"}
        assert all((error > 0.1) == (world.size > 1) for error in rank.values()), rank


def test_adasum_of_special_gradients(world: World) -> None:
    for case, error in world.one("adasum_at_its_corners").items():
        assert error < 1e-5, case  # of numbers up to 8


def test_float16_on_the_wire_rounds_as_float16_does(world: World) -> None:
    found = world.one("half_precision")
    for case in ("Average float32", "Sum float32", "Average float64", "Sum float64"):
        assert found[case] <= 1, f"{case}: more than its roundings can give"
        assert found[f"{case} rounded"] > 1e-5, f"{case}: must have been float16 on the way"
        assert found[f"{case} dtype"] == [case.split()[1]]


def test_predivision(world: World) -> None:
    found = world.one("predivide")
    for factor in ("0.5", "2.0", "8.0"):
        assert found[factor] < TOLERANCE["float32"], factor
    assert found["fp16"] == (40000.0 if world.size == 1 else float("inf")), "float16 ends at 65504"
    assert found["fp16, divided before"] == 40000.0


def test_groups(world: World) -> None:
    found = world.one("groups")
    assert len(found) == 7
    for case, error in found.items():
        assert error < TOLERANCE["float32"], case


def test_rows_of_embeddings(world: World) -> None:
    found = world.one("sparse")
    assert len(found) == (10 if world.size == 1 else 12)
    for case, error in found.items():
        assert error < TOLERANCE["float32"], case


def test_several_backward_passes_a_step(world: World) -> None:
    found = world.one("backward_passes")
    assert len(found) == 8
    for case, answer in found.items():
        assert answer["changed"] == [False, False, True, False, False, True, False], case
        assert answer["iterations"] == [1, 2, 3, 4, 5, 6, 7], f"{case}: every pass is one, as Horovod counts them"
        # Weights of up to 10; float16 rounds what travels, sums of three passes, by 2^-11 of up to 10.
        assert answer["difference"] < (5e-3 if "float16" in case else 5e-6), case


def test_several_backward_passes_with_rows(world: World) -> None:
    found = world.one("backward_passes_of_rows")
    assert found["between"] == 0.0
    assert found["after"] < TOLERANCE["float32"]


def test_two_averaged_passes_are_one_step_with_twice_the_batch(world: World) -> None:
    for found in world.every("backward_passes_in_fit"):
        assert found["identical"]
        assert found["difference"] < 1e-5
        assert found["every step"] > 0.1, "an update at every pass would be noticed"


def test_local_layers(world: World) -> None:
    for rank in world.every("local_layers"):
        for case, found in rank.items():
            assert found["shared"] < TOLERANCE["float32"], case
            assert found["own"] < TOLERANCE["float32"], case


def test_fit_with_local_layers(world: World) -> None:
    assert world.one("local_layers_in_fit") == {"shared": True, "own": world.size == 1}
    for difference in world.every("no_local_layers"):
        assert difference < 1e-5, "without local layers it is a DistributedOptimizer"


def test_two_process_sets_train_different_models(world: World) -> None:
    for rank, found in enumerate(world.every("two_process_sets")):
        if world.size == 1:
            assert found == {}
            continue
        half = [r for r in range(world.size) if (r < world.size // 2) == (rank < world.size // 2)]
        assert found["set"] == half
        for way in ("fit", "loop"):
            assert found[way]["difference"] < 1e-5, way
            assert found[way]["same as"] == half, f"{way}: the same bits in a set, others in the other"


def test_a_rank_outside_the_process_set_idles(world: World) -> None:
    found = world.every("idle_rank")
    if world.size == 1:
        assert found == [{}]
        return
    assert found[-1] == {"idle": True}
    assert all(rank["difference"] < 1e-5 for rank in found[:-1])


def test_gradients_are_reduced_over_the_ranks_of_the_set(world: World) -> None:
    assert all(error < TOLERANCE["float32"] for error in world.every("reduced_in_a_set"))
