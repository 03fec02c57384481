"""Saves a training after each epoch, and resumes it from the newest whole checkpoint.

Runs on: every rank.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.checkpoints import archive, callback_state, rng_state, writer
from jupyter_ddl.checkpoints.data_position import Data, pass_over
from jupyter_ddl.checkpoints.variables import Variables
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol import checkpoint_folder
from jupyter_ddl.training.backends import hvd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.checkpoints.archive import Contents
    from jupyter_ddl.protocol.checkpoint_folder import Checkpoint


class Saver(keras.callbacks.Callback):
    """Saves and resumes one `fit`. It comes after all other callbacks: what they have done is saved with the rest.

    Collective: every rank must call `fit` with one.

    Args:
        folder: the argument of `--checkpoint`.
        fit: which fit of its cell, from 1.
        began: the states of this rank's random number generators when the cell began.
        data: of the fit.
        first_epoch: at which the program begins, from 0.
        others: the other callbacks of this rank.
    """

    def __init__(
        self,
        folder: str,
        fit: int,
        began: dict[str, Any],
        data: Data,
        first_epoch: int,
        others: Sequence[Any],
    ) -> None:
        super().__init__()
        self._folder = folder
        self._fit = fit
        self._began = began
        self._data = data
        self._first_epoch = first_epoch
        self._others = others
        self._variables: Any = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Restore the newest whole checkpoint, if there is one.

        Raises:
            InvalidInput: the model has no weights yet; the folder cannot be written to; the checkpoint is another
                model's. On every rank.
        """
        if not self.model.built:
            raise InvalidInput(
                "--checkpoint saves a model that has its weights when training begins.",
                f"{self.model.name}, which is not built",
                "Begin it with keras.Input, or call model.build(input_shape).",
            )
        self._variables = Variables(self.model)
        found, contents = from_rank_0(self._look)
        if found is not None:
            self._resume(found, contents)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Save."""
        own = self._variables.values_that_differ(gathered)
        with self._variables.whole():
            all_draws = gathered({"began": self._began, "now": rng_state.state()})
            if hvd.rank() == 0:
                self._write(epoch, own, all_draws)

    def _write(self, epoch: int, own: dict[int, dict[int, Any]], all_draws: list[dict[str, Any]]) -> None:
        """Write a checkpoint. Runs on rank 0."""
        best = callback_state.best_weights_of(self._others)
        contents = archive.Contents(
            epoch=epoch + 1,
            is_last=bool(self.model.stop_training),
            world_size=hvd.size(),
            variables=self._variables.described,
            draws=tuple(all_draws),
            counters=callback_state.counters_of(self._others),
            best={name: [str(weight.dtype) for weight in weights] for name, weights in best.items()},
        )
        values = (variable.numpy() for variable in self._variables.all)
        try:
            writer.write(
                self._folder, self._fit, epoch + 1, lambda file: archive.write(file, contents, values, own, best)
            )
        except OSError as error:
            # A full disk must not end the training.
            print(
                f"WARNING: no checkpoint after epoch {epoch + 1}: {error}. Training continues; the newest whole one in "
                f"{self._folder} is the one before.",
                file=sys.stderr,
            )

    def _look(self) -> tuple[Checkpoint | None, Contents | None]:
        """Return the newest whole checkpoint, and its description. Runs on rank 0."""
        writer.require_writable(self._folder)
        for broken in checkpoint_folder.damaged(self._folder, self._fit):
            print(f"WARNING: {broken.path} is cut off or damaged, and is skipped.", file=sys.stderr)
        found = checkpoint_folder.newest(self._folder, self._fit)
        return found, None if found is None else archive.describe(found.path)

    def _resume(self, found: Checkpoint, contents: Contents) -> None:
        variables = self._variables
        differences = [each for each in gathered(variables.difference(contents.variables)) if each]
        if differences:
            raise InvalidInput(
                "A checkpoint must be resumed with the model and optimizer that it was made of.",
                f"{found.path} with {differences[0]}",
                "Name another folder, or delete this one to start over.",
            )
        read = archive.reader(found.path, contents.variables) if hvd.rank() == 0 else _unread
        places = variables.places_in(contents.variables)
        for number, place in sorted(places.items()):
            variables.receive(number, partial(read, place))
        own, best = from_rank_0(lambda: (archive.read_own(found.path), archive.read_best(found.path)))
        # Ranks that were not there before get rank 0's values (BatchNormalization's averages, random states).
        of_this_rank = own.get(hvd.rank(), {})
        for number, place in places.items():
            if place in of_this_rank:
                variables.assign(number, of_this_rank[place])
        callback_state.put_back(self._others, contents.counters, best)
        pass_over(self._data, max(0, found.epoch - self._first_epoch))
        if contents.world_size == hvd.size():
            rng_state.put_back(contents.draws[hvd.rank()]["now"])
        epochs = self.params["epochs"]
        self.model._initial_epoch = max(epochs, found.epoch) if contents.is_last else found.epoch
        if hvd.rank() == 0:
            print(_message(found, contents, epochs), flush=True)


def from_rank_0(do: Callable[[], Any]) -> Any:
    """Return rank 0's result on every rank; raise its exception on every rank. Collective.

    Raises:
        InvalidInput: rank 0 did.
    """
    answer, error = None, None
    if hvd.rank() == 0:
        try:
            answer = do()
        except InvalidInput as raised:
            error = (raised.rule, raised.received, raised.remedy)
    if hvd.size() > 1:
        answer, error = hvd.broadcast_object((answer, error), 0, name="checkpoint")
    if error is not None:
        raise InvalidInput(*error)
    return answer


def gathered(mine: Any) -> list[Any]:
    """Return the values of all ranks, in their order. Collective."""
    if hvd.size() == 1:
        return [mine]
    every: list[Any] = hvd.allgather_object(mine, name="checkpoint")
    return every


def _unread(number: int) -> Any:
    raise AssertionError(f"variable {number} is read on rank 0")


def _message(found: Checkpoint, contents: Contents, epochs: int) -> str:
    where = f"{found.path}"
    others = (
        ""
        if contents.world_size == hvd.size()
        else f" (of {contents.world_size} ranks: random numbers from here on are new)"
    )
    if contents.is_last and found.epoch < epochs:
        return f"stopped after epoch {found.epoch} of {epochs} before: its end is taken from {where}"
    if found.epoch >= epochs:
        return f"trained to epoch {found.epoch} of {epochs} before: taken from {where}; delete it to start over"
    return f"resumes after epoch {found.epoch} of {epochs} from {where}{others}"
