"""What test_elastic.py asserts, measured on every rank of one MPI job.

Run by `mpiexec -n N python elastic_program.py FOLDER`.
"""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from findings import error_text, finding, take_all
from horovod.common.exceptions import HorovodInternalError

import jupyter_ddl.keras as hvd

STEPS = 4
X = np.random.default_rng(0).normal(size=(STEPS * 8, 4)).astype("float32")
Y = np.arange(STEPS * 8) % 3


def network(seed: int = 1) -> Any:
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), loss=loss)
    return model


def weights_of(model: Any) -> list[np.ndarray]:
    return [*model.get_weights(), *(variable.numpy() for variable in model.optimizer.variables)]


def are_equal(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(map(np.array_equal, a, b))


def fit(model: Any, **options: Any) -> None:
    model.fit(X, Y, batch_size=8, shuffle=False, verbose=0, **options)


@finding
def state() -> dict[str, Any]:
    """What is committed comes back, and rank 0's is everybody's after a sync."""
    rank = hvd.rank()
    model = network(seed=rank)
    elastic = hvd.elastic.KerasState(model, batch=rank, seen=[rank])
    at_first = weights_of(model)
    model.set_weights([weight + 1 for weight in model.get_weights()])
    elastic.batch, elastic.seen = 7, [*elastic.seen, 8]
    elastic.restore()
    answers: dict[str, Any] = {
        "restored": are_equal(weights_of(model), at_first) and (elastic.batch, elastic.seen) == (rank, [rank])
    }
    elastic.seen.append(9)
    elastic.commit()
    committed = weights_of(model)
    elastic.seen.append(10)  # of the list that was committed
    elastic.restore()
    answers["committed"] = are_equal(weights_of(model), committed) and elastic.seen == [rank, 9]
    elastic.sync()
    answers["synced"] = [elastic.batch, elastic.seen]
    fit(model)
    answers["trained in sync"] = hvd.check_in_sync(model)
    elastic.restore()
    answers["iterations after restoring"] = int(model.optimizer.iterations.numpy())
    answers["commits"] = elastic.commits
    return answers


class FailsOnce(keras.callbacks.Callback):
    """Has the collectives of all ranks fail in one batch, the first time that it is reached."""

    def __init__(self, epoch: int, batch: int, failing_rank: int) -> None:
        super().__init__()
        self.at = (epoch, batch)
        self.epoch = 0
        self.failing_rank = failing_rank
        self.is_done = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == self.at and not self.is_done:
            self.is_done = True
            if hvd.rank() == self.failing_rank:
                # As when Horovod's core gives up: the other ranks' collectives end with an error.
                hvd.shutdown()
                raise HorovodInternalError("for the test")


class Notes(keras.callbacks.Callback):
    """Notes what the state says after each batch."""

    def __init__(self, elastic: Any) -> None:
        super().__init__()
        self.elastic = elastic
        self.batches: list[list[int]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches.append([self.elastic.epoch, self.elastic.batch])


@finding
def goes_on_after_a_failed_collective() -> dict[str, Any]:
    """The last rank's collective fails in the second epoch's third batch; the last commit was after the second."""
    model = network()
    elastic = hvd.elastic.KerasState(model, batch=0, epoch=0)
    resets: list[int] = []
    elastic.register_reset_callbacks([lambda: resets.append(hvd.size())])
    fails, notes = FailsOnce(1, 2, hvd.size() - 1), Notes(elastic)
    starts: list[list[int]] = []

    @hvd.elastic.run
    def train(elastic: Any, epochs: int) -> str:
        starts.append([elastic.epoch, elastic.batch])
        # The batches that are done are left out, of the epoch in which training goes on.
        first = elastic.batch
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
        data = data.skip(first).concatenate(data.repeat())
        callbacks = [
            fails,
            hvd.elastic.UpdateBatchStateCallback(elastic),
            hvd.elastic.UpdateEpochStateCallback(elastic),
            notes,
            hvd.elastic.CommitStateCallback(elastic, batches_per_commit=2),
        ]
        elastic.model.fit(data, steps_per_epoch=STEPS, epochs=epochs - elastic.epoch, callbacks=callbacks, verbose=0)
        return "done"

    answer = train(elastic, epochs=3)
    return {
        "answer": answer,
        "name": train.__name__,
        "starts": starts,
        "batches": notes.batches,
        "resets": resets,
        "checksum": hvd.check_in_sync(model),
        "epoch": elastic.epoch,
    }


@finding
def early_stopping_in_a_shortened_epoch() -> dict[str, Any]:
    """The cut of the first epoch does not go on training that another callback has ended."""
    answers = {}
    for is_stopping in (False, True):
        model = network()
        elastic = hvd.elastic.KerasState(model, batch=2, epoch=0)
        notes = Notes(elastic)
        callbacks = [hvd.elastic.UpdateBatchStateCallback(elastic), notes]
        if is_stopping:
            callbacks.insert(0, Stops())
        fit(model, epochs=2, callbacks=callbacks)
        answers["stopping" if is_stopping else "not stopping"] = [batch for _, batch in notes.batches]
    return answers


class Stops(keras.callbacks.Callback):
    """Ends the training after the first epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.stop_training = True


@finding
def epochs_are_counted_from_both_ends() -> list[int]:
    counts = []
    for initial_epoch in (0, 2):
        model = network()
        elastic = hvd.elastic.KerasState(model, epoch=2)
        callbacks = [hvd.elastic.UpdateEpochStateCallback(elastic)]
        fit(model, initial_epoch=initial_epoch, epochs=initial_epoch + 2, callbacks=callbacks)
        counts.append(elastic.epoch)
    return counts


def message_of(function: Any) -> list[str]:
    try:
        function()
    except Exception as error:  # noqa: BLE001 (whatever it is, the test says it)
        return [type(error).__name__, str(error)]
    return []


@finding
def what_always_fails_is_raised() -> dict[str, Any]:
    elastic = hvd.elastic.KerasState(network(), step=0)
    attempts: list[int] = []

    @hvd.elastic.run
    def train(elastic: Any) -> None:
        attempts.append(elastic.step)
        if elastic.step == 0:
            elastic.step = 1
            elastic.commit()
        raise HorovodInternalError("always")

    error = message_of(lambda: train(elastic))
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    return {"error": error, "attempts": attempts}


@finding
def another_ranks_own_error_is_not_tried_again() -> dict[str, Any]:
    """Rank 0 raises an error of its own, and the others are in an exchange."""
    elastic = hvd.elastic.KerasState(network())
    attempts: list[int] = []

    @hvd.elastic.run
    def train(elastic: Any) -> None:
        attempts.append(len(attempts))
        if hvd.rank() == 0:
            hvd.shutdown()  # as the guard around a cell does for a rank that raises
            raise ZeroDivisionError("rank 0's own")
        fit(elastic.model)

    error = message_of(lambda: train(elastic))
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    return {"error": [*error[:1], "Horovod has been shut down" in "".join(error[1:])], "attempts": attempts}


@finding
def a_rank_that_has_returned_is_not_waited_for() -> dict[str, Any]:
    elastic = hvd.elastic.KerasState(network())

    @hvd.elastic.run
    def train(elastic: Any) -> str:
        if hvd.rank() == 0:
            return "returned"
        raise HorovodInternalError("after rank 0 has returned")

    answers: dict[str, Any] = {}

    def take() -> None:
        answers["returned"] = train(elastic)

    answers["error"] = message_of(take)
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    return answers


@finding
def an_error_of_tensorflows_own_is_raised() -> list[str]:
    elastic = hvd.elastic.KerasState(network())

    @hvd.elastic.run
    def train(elastic: Any) -> None:
        raise tf.errors.UnknownError(None, None, "a broken disk")

    return message_of(lambda: train(elastic))


@finding
def errors() -> dict[str, str | None]:
    elastic = hvd.elastic.KerasState(network())
    unbuilt = keras.Sequential([keras.layers.Dense(1)], name="unbuilt")
    uncompiled = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name="uncompiled")
    noop = hvd.elastic.run(lambda elastic: None)
    os.environ["HOROVOD_ELASTIC"] = "1"
    driver = error_text(lambda: noop(elastic))
    del os.environ["HOROVOD_ELASTIC"]
    answers = {
        "driver": driver,
        "state": error_text(lambda: noop("state")),
        "unbuilt": error_text(lambda: hvd.elastic.KerasState(unbuilt)),
        "uncompiled": error_text(lambda: hvd.elastic.KerasState(uncompiled)),
        "batches": error_text(lambda: hvd.elastic.CommitStateCallback(elastic, 0)),
    }
    hvd.barrier()
    hvd.shutdown()
    answers["without Horovod"] = error_text(lambda: noop(elastic))
    answers["a state without Horovod"] = error_text(lambda: hvd.elastic.KerasState(network))
    hvd.init(process_sets="dynamic")
    return answers


if __name__ == "__main__":
    take_all(process_sets="dynamic")
