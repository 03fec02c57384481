"""hvd.elastic as far as MPI allows, on real ranks: what elastic_program.py found, in one MPI job a world size."""

from __future__ import annotations

import pytest
from ranks.mpirun import WORLDS
from ranks.numerics_world import World

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World("elastic_program.py", request.param, tmp_path_factory.mktemp(f"world-{request.param}"))


def test_the_state_is_committed_restored_and_synced(world: World) -> None:
    found = world.every("state")
    assert len({rank.pop("trained in sync") for rank in found}) == 1
    wanted = {"restored": True, "committed": True, "synced": [0, [0, 9]], "iterations after restoring": 0, "commits": 1}
    assert found == [wanted] * world.size


def test_training_goes_on_from_the_last_commit(world: World) -> None:
    found = world.one("goes_on_after_a_failed_collective")
    assert found["answer"] == "done"
    assert found["name"] == "train"
    assert found["starts"] == [[0, 0], [1, 1]], "the epochs and batches from which it began"
    assert found["resets"] == [world.size]
    # As Horovod counts: `state.batch` is the number of the batch that was done, and training goes on with it.
    assert found["batches"] == [
        *([0, batch] for batch in range(4)),
        *([1, batch] for batch in range(2)),
        *([1, batch] for batch in (1, 2, 3)),
        *([2, batch] for batch in range(4)),
    ]
    assert found["epoch"] == 3


def test_a_shortened_epoch_ends_only_itself(world: World) -> None:
    assert world.one("early_stopping_in_a_shortened_epoch") == {
        "not stopping": [2, 3, 0, 1, 2, 3],
        "stopping": [2, 3],
    }


def test_epochs_are_counted_from_0_and_from_initial_epoch(world: World) -> None:
    assert world.one("epochs_are_counted_from_both_ends") == [4, 4]


def test_what_fails_without_a_commit_in_between_is_raised(world: World) -> None:
    """The first failure came after a commit, the second did not."""
    assert world.one("what_always_fails_is_raised") == {
        "error": ["HorovodInternalError", "always"],
        "attempts": [0, 1],
    }


def test_an_error_of_a_ranks_own_ends_all(world: World) -> None:
    first, *others = world.every("another_ranks_own_error_is_not_tried_again")
    assert first == {"error": ["ZeroDivisionError", False], "attempts": [0]}
    for other in others:
        assert other == {"error": ["UnknownError", True], "attempts": [0]}


def test_a_rank_that_has_returned_is_not_waited_for(world: World) -> None:
    first, *others = world.every("a_rank_that_has_returned_is_not_waited_for")
    assert first == {"returned": "returned", "error": []}
    for other in others:
        assert other == {"error": ["HorovodInternalError", "after rank 0 has returned"]}


def test_an_error_of_tensorflows_own_is_raised(world: World) -> None:
    name, text = world.one("an_error_of_tensorflows_own_is_raised")
    assert name == "UnknownError"
    assert "a broken disk" in text


def test_errors(world: World) -> None:
    without = "{} needs Horovod. Received: Horovod is not initialised. Call hvd.init() first."
    assert world.one("errors") == {
        "driver": "Horovod's elastic driver, with its host discovery script, needs Gloo; an MPI job keeps its ranks. "
        "Received: HOROVOD_ELASTIC=1. Start the ranks with a fixed number, and leave HOROVOD_ELASTIC out of the "
        "environment.",
        "state": "The first argument of a function under hvd.elastic.run is its state. Received: builtins.str. Pass "
        "hvd.elastic.KerasState(model, ...).",
        "unbuilt": "KerasState takes a model that has its weights. Received: unbuilt, which is not built. Begin it "
        "with keras.Input, or call model.build(input_shape).",
        "uncompiled": "KerasState needs an optimizer. Received: uncompiled, which is not compiled. Call model.compile "
        "first, or pass optimizer.",
        "batches": "batches_per_commit must be at least 1. Received: 0. Pass e.g. 100.",
        "without Horovod": without.format("hvd.elastic.run"),
        "a state without Horovod": without.format("KerasState"),
    }
