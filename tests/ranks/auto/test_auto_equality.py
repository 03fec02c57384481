"""`jupyter_ddl.auto` on small programs of many kinds: with `batch="global"`, all ranks come to what one process does.

The rules for what cannot be equal:

- BatchNormalization: each rank normalises by its own part of the batch, as everywhere without synchronised layers. All
  ranks end alike, and the moving averages are the mean of the ranks' own.
- Dropout and random augmentation: each rank draws for its own samples. All ranks end alike, and the loss falls.
- Half precision: gradients are rounded to 11 bits before they are added up.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ranks.auto.auto_equality_names import OWN_RULES, SOME
from ranks.numerics_world import World, world_of

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.mpi

PROGRAMS = sorted(path.stem for path in (Path(__file__).parents[2] / "auto_programs").glob("*.py"))
FEW, EVERY = "auto_equality_program.py", "auto_equality_every_program.py"
# At most: four ranks on two cores.
EVERY_TAKES_S = 1500.0
# The norm of a tensor's difference, and the relative difference of the numbers.
TOLERANCE = 1e-5
TOLERANCE_HALF = 1e-3
# Of float32 numbers that are added up in another order.
ROUNDING = 1e-6


def on_worlds(*names: str, some: Sequence[str] = ()) -> Any:
    """Have a test take programs: those in `some` on two ranks, and all on 1, 2 and 4, which is slow."""
    cases = [pytest.param((FEW, 2), name, id=f"some-2-{name}") for name in names if name in some]
    for n in (1, 2, 4):
        cases += [pytest.param((EVERY, n), name, id=f"every-{n}-{name}", marks=pytest.mark.slow) for name in names]
    return pytest.mark.parametrize(("world", "name"), cases, indirect=["world"])


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    program, n = request.param
    if program != EVERY:
        return world_of(program, n, tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMERICS_HANGS_S", str(EVERY_TAKES_S))
        return World(program, n, tmp_path_factory.mktemp(f"every-{n}"), EVERY_TAKES_S)


def found_of(world: World, name: str) -> list[dict[str, Any]]:
    if name == "data_frame":
        pytest.importorskip("pandas")
    return world.every(name)


@on_worlds(*(name for name in PROGRAMS if name not in OWN_RULES), some=SOME)
def test_a_program_comes_to_what_one_process_does(world: World, name: str) -> None:
    for found in found_of(world, name):
        assert_equal(found, TOLERANCE_HALF if name == "mixed_precision" else TOLERANCE)


def assert_equal(found: dict[str, Any], bound: float) -> None:
    assert found["identical"], "the weights must be the same bits on all ranks"
    assert found["difference"] < bound
    for told, wanted in (found["history"], found["results"]):
        assert told.keys() == wanted.keys()
        for metric, value in wanted.items():
            assert told[metric] == pytest.approx(value, rel=bound, abs=ROUNDING), metric
    shapes, wanted_shapes = found["shapes"]
    assert shapes == wanted_shapes
    assert all(difference < bound for difference in found["predictions"]), "predictions, in their order"


@on_worlds("any_size", some=["any_size"])
def test_evaluation_is_exact_for_any_number_of_samples(world: World, name: str) -> None:
    for found in found_of(world, name):
        told, wanted = found["results"]
        assert len(wanted) == 6 * 6, "three values of arrays and of a dataset, six sizes"
        for result, value in wanted.items():
            assert told[result] == pytest.approx(value, rel=ROUNDING, abs=ROUNDING), result


@on_worlds(*OWN_RULES, some=["batch_normalization"])
def test_one_rank_is_one_process(world: World, name: str) -> None:
    for found in found_of(world, name):
        assert found["identical"]
        assert (found["difference"] < TOLERANCE) == (world.size == 1)


@on_worlds("batch_normalization", some=["batch_normalization"])
def test_moving_averages_are_the_mean_of_the_ranks(world: World, name: str) -> None:
    for found in found_of(world, name):
        assert max(found["moving"]) < 1e-4


# test_auto_differences shows it of each kind of random number.
@on_worlds("dropout", "random_augmentation")
def test_every_rank_draws_its_own(world: World, name: str) -> None:
    every = found_of(world, name)
    assert len({tuple(found["drawn"]) for found in every}) == world.size
    for found in every:
        losses = found["history"][0]["loss"]
        assert losses[-1] < 0.9 * losses[0]


# --- samples ---------------------------------------------------------------------------------------------------


@on_worlds("samples global", "samples per-rank", some=["samples global", "samples per-rank"])
def test_no_sample_of_an_epoch_comes_twice_or_not_at_all(world: World, name: str) -> None:
    for kind, found in first_of(world, name).items():
        for counts in found["counts"]:
            assert counts == pytest.approx([1.0] * len(counts), rel=1e-3), kind


@on_worlds("samples per-rank", some=["samples per-rank"])
def test_epochs_are_shuffled_differently_and_reruns_alike(world: World, name: str) -> None:
    for kind, found in first_of(world, name).items():
        orders = found["orders"]
        # Alone, Keras takes arrays in the same order in each epoch once a seed is set. On several ranks it is ours.
        is_shuffled = kind == "dataset" or (kind == "arrays" and world.size > 1)
        assert len({str(epoch) for epoch in orders}) == (len(orders) if is_shuffled else 1), kind
        assert found["rerun"] in (orders, None), kind


@on_worlds("samples global", some=["samples global"])
def test_a_global_batch_has_the_samples_of_one_process(world: World, name: str) -> None:
    alone = world.one("samples alone")
    for kind, found in first_of(world, name).items():
        assert found["orders"] == alone[kind], kind


@on_worlds("samples per-rank", some=["samples per-rank"])
def test_a_batch_per_rank_makes_steps_of_all_ranks_batches(world: World, name: str) -> None:
    for kind, found in first_of(world, name).items():
        one = world.every("samples alone")[0][kind][0]
        for epoch in found["orders"]:
            assert len(epoch) == -(-len(one) // world.size), kind
            assert len(epoch[0]) == sum(len(batch) for batch in one[: world.size]), kind


def first_of(world: World, name: str) -> dict[str, Any]:
    """Return what rank 0 saw: it has a batch in each step, where others may have none left and only take part."""
    found: dict[str, Any] = world.every(name)[0]
    return found
