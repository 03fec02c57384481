"""`--auto` on data that draw: no sample of an epoch is lost, and ranks whose data differ are told before they train."""

from __future__ import annotations

import pytest
from ranks.mpirun import PAIR
from ranks.numerics_world import World, world_of

pytestmark = pytest.mark.mpi
SAME = "With --auto all ranks have the same data, and each takes its part"
# What each rank is told of data that differ between them.
DIFFERENT = {
    "split": "x (int32 (50,)) with other rows on rank 1 than on rank 0. Give what draws or orders them one seed",
    "size": "x of float32 (40, 1) on rank 0, of float32 (41, 1) on rank 1.",
    "dtype": "y of float32 (40, 1) on rank 0, of float64 (40, 1) on rank 1.",
    "one row": "y (float32 (40, 1)) with other rows on rank 1 than on rank 0.",
    "weights": "sample_weight (float32 (40,)) with other rows",
    "validation": "validation_data[1] (float32 (40, 1)) with other rows",
    "in a dict": "x['a'] (float32 (40, 1)) with other rows",
    "tensor": "x (float32 (40, 1)) with other rows",
    "evaluate": f"{SAME}: the data must be alike. Received: x (float32 (40, 1)) with other rows",
    "evaluate a dataset": "Received: data of evaluate and validation that differ between the ranks. Shuffle with",
    "evaluate a generator": "Received: data of evaluate and validation that differ between the ranks.",
    "predict": "x (float32 (40, 1)) with other rows",
    "predict a dataset": "Received: data of predict that differ between the ranks. Shuffle with a seed",
    "train_on_batch": "the batch of train_on_batch must be alike. Received: x (float32 (40, 1)) with other rows",
    "test_on_batch": "the batch of test_on_batch must be alike. Received: y (float32 (40, 1)) with other rows",
    "dataset": "what a dataset is made of must be alike. Received: element 0 of the dataset[0] (int32 ()) with",
    "dataset's files": "what a dataset is made of must be alike. Received: element 0 of the dataset (string ()) with",
    "dataset from a generator": "Received: first elements that differ between the ranks. Shuffle with a seed",
    "validation by a dataset": "Received: data of evaluate and validation that differ between the ranks.",
    "generator": "Received: a generator that gives other batches on one rank than on another. Give what it draws",
    "words": "set PYTHONHASHSEED=0 for all of them before they start.",
    "vocabulary": "Received: the vocabulary of StringLookup 1 (51 words) with other rows on rank 1 than on rank 0.",
    "PyDataset's split": "Received: a Split that differs between the ranks in order. Give what shuffles or splits",
    "PyDataset's shuffle": "Received: a Hidden that differs between the ranks in order.",
}
DIVIDED = "each part of a batch is divided among the ranks by its first dimension, the samples. Received: a batch with"
NO_BATCH = {
    "mask": f"With --batch global {DIVIDED} parts of shapes (10, 1) and (26) and (10, 1). Use --batch per-rank",
    "number": f"With --batch global {DIVIDED} parts of shapes (10, 1) and () and (10, 1). Use --batch per-rank",
    "sizes that only the batches tell": "a batch whose parts have other numbers of rows than each other. Use --batch",
    "train_on_batch": "Received: arrays of shapes (40, 1) and (26,) and (40, 1). Keep what is no batch",
}


@pytest.fixture(scope="module", params=PAIR)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return with_hashes_apart(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> World:
    return with_hashes_apart(2, tmp_path_factory)


def with_hashes_apart(n: int, factory: pytest.TempPathFactory) -> World:
    """Return what ranks found that hash strings differently, as under a plain mpiexec."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "random")
        return world_of("auto_data_program.py", n, factory)


def test_a_dataset_that_draws_loses_no_sample(world: World) -> None:
    # As rank 0 saw it: it has a batch in each step, where another may have none left.
    for kind, epochs in world.every("datasets_that_draw")[0]["counts"].items():
        for counts in epochs:
            assert counts == pytest.approx([1.0] * len(counts), rel=1e-3), kind


def test_ranks_draw_alike_after_a_fit_on_such_a_dataset(pair: World) -> None:
    first, second = (found["states after a fit"] for found in pair.every("datasets_that_draw"))
    assert first == second


def test_ranks_draw_their_own_for_their_samples(pair: World) -> None:
    first, second = (set(found["drawn for its samples"]) for found in pair.every("datasets_that_draw"))
    assert len(first) >= 9
    assert not first & second


def test_a_dataset_that_draws_is_evaluated_whole(world: World) -> None:
    for found in world.every("evaluations_of_datasets_that_draw"):
        for name, (total, squares, wanted, wanted_squares) in found.items():
            assert (total, squares) == (wanted, wanted_squares), name
    for totals, squares in world.every("validations_of_datasets_that_draw"):
        assert totals == [sum(range(50))] * 3
        assert squares == [sum(i * i for i in range(50))] * 3


# One rank takes what Keras itself takes.
def test_an_evaluation_counts_no_batch_that_is_not_there(pair: World) -> None:
    for found in pair.every("counted_batches"):
        assert found.pop("told") == [], "Keras says that data have ended that should have gone on"
        assert found.pop("validation") == [1.0, 1.0]
        assert set(found.values()) == {1.0}, found


@pytest.mark.parametrize("name", DIFFERENT)
def test_ranks_that_differ_are_refused(pair: World, name: str) -> None:
    for found in pair.every("ranks_that_differ"):
        assert DIFFERENT[name] in found[name]


def test_hashes_that_differ_are_told_of(pair: World) -> None:
    printed = (pair.folder / "printed.txt").read_text(errors="replace")
    assert "WARNING: The ranks hash strings differently, so a set of words has another order on each" in printed


@pytest.mark.parametrize("name", NO_BATCH)
def test_parts_that_are_no_batch_are_refused(pair: World, name: str) -> None:
    for found in pair.every("parts_that_are_no_batch"):
        assert NO_BATCH[name] in found[name]


def test_parts_that_are_no_batch_are_evaluated(world: World) -> None:
    for found in world.every("evaluation_of_parts_that_are_no_batch"):
        for name, (told, wanted) in found.items():
            assert told == pytest.approx(wanted, rel=1e-5), name


def test_a_validation_takes_of_a_generator_what_it_uses(pair: World) -> None:
    # The first two of each pass are those that Keras has looked at before.
    assert pair.one("an_endless_generator_for_validation") == 2 + 3 * 2
