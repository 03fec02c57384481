"""Trains each batch in parts, one after the other, and makes one update with the sum of their gradients.

What a step keeps for its backward pass is then that of a part. The gradients of the parts, each weighed by its samples,
add up to that of the batch where the loss is a mean over samples. The optimizer gets the sum, and exchanges it, as if
one pass had made it.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras
from keras.src import backend

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import arrays, ops
from jupyter_ddl.training.optimizer.distribution import has_users_update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MEANS = ("sum_over_batch_size", "mean")
_REMEDY = "Drop accumulate from --memory, or pass smaller batches."


def check(model: Any) -> None:
    """Raise where the gradients of a batch's parts do not add up to the batch's.

    Raises:
        InvalidInput: the step is the program's own, or the optimizer's update; or a loss is no mean over samples.
    """
    if getattr(model.train_step, "__func__", None) is not keras.Model.train_step:
        raise InvalidInput(
            "--memory accumulate trains the parts of a batch by Keras's own train_step.",
            f"{type(model).__name__}.train_step",
            _REMEDY,
        )
    if has_users_update(model.optimizer):
        raise InvalidInput(
            "--memory accumulate gives the sum of gradients to an optimizer of Keras's.",
            f"{model.optimizer.__class__.__name__}.apply_gradients",
            _REMEDY,
        )
    compiled = getattr(model, "_compile_loss", None)
    given = [] if compiled is None else keras.tree.flatten(compiled._user_loss)
    others = [loss for loss in given if isinstance(loss, keras.losses.Loss) and loss.reduction not in _MEANS]
    if others:
        raise InvalidInput(
            "--memory accumulate takes losses that are means over samples.",
            f"{type(others[0]).__name__}(reduction={others[0].reduction!r})",
            "Use reduction='sum_over_batch_size', or drop accumulate from --memory.",
        )


def check_mask(loss: Any, y_pred: Any) -> None:
    """Raise where a loss is a mean over the values that a mask leaves: each part of a batch has another number of them.

    Args:
        loss: one of `compile`, Keras's or made by Keras of a function.
        y_pred: one output of the model, in a step, where Keras has set the mask.

    Raises:
        InvalidInput: the output has a mask, or the loss leaves out a class.
    """
    given = getattr(loss, "ignore_class", None)
    if given is None and backend.get_keras_mask(y_pred) is None:
        return
    raise InvalidInput(
        "--memory accumulate takes losses that are means over all values of a batch.",
        f"{loss.name} with " + ("a mask of the model's output" if given is None else f"ignore_class={given}"),
        "Give the values to leave out a sample_weight of 0 instead, or drop accumulate from --memory.",
    )


def in_parts(users_step: Callable[[Any], Any], model: Any, parts: int) -> Callable[[Any], Any]:
    """Return a step that trains a batch in parts; in fewer where it has fewer samples.

    Args:
        users_step: Keras's own, which ends with one update of all trained weights.
        model: that it trains.
        parts: above 1.
    """

    def step(data: Any) -> Any:
        samples = ops.samples_in(data)
        count = ops.minimum(parts, samples)

        def trained(number: Any) -> tuple[_Update, Any]:
            """Return a part's update, not made, with its gradients times its share of the samples; and its logs."""
            start, stop = number * samples // count, (number + 1) * samples // count
            with _kept_update(model.optimizer) as update:
                logs = users_step(keras.tree.map_structure(lambda each: _rows(each, start, stop), data))
            share = ops.cast(stop - start, "float64") / ops.cast(samples, "float64")
            update.weigh(share)
            return update, logs

        whole, logs = trained(0)
        flat = keras.tree.flatten(logs)

        def add(number: Any, state: Sequence[Any]) -> list[Any]:
            part, logs = trained(number)
            sums = zip(state[: len(state) - len(flat)], part.dense(), strict=True)
            return [*(total + more for total, more in sums), *keras.tree.flatten(logs)]

        state = list(ops.repeat(count, add, [*whole.dense(), *flat]))
        whole.put(state[: len(state) - len(flat)])
        with ops.without_gradients():
            model.optimizer.apply(whole.gradients, whole.variables)
        return keras.tree.pack_sequence_as(logs, state[len(state) - len(flat) :])

    return step


@dataclass
class _Update:
    """An update that an optimizer was asked for.

    Attributes:
        gradients: dense tensors; None for a variable that the loss does not reach.
        variables: what they are gradients of.
    """

    gradients: list[Any] = field(default_factory=list)
    variables: list[Any] = field(default_factory=list)

    def weigh(self, share: Any) -> None:
        """Multiply the gradients by a part's share."""
        self.gradients = [None if each is None else ops.times(ops.densified(each), share) for each in self.gradients]

    def dense(self) -> list[Any]:
        """Return the gradients that are there."""
        return [each for each in self.gradients if each is not None]

    def put(self, gradients: Sequence[Any]) -> None:
        """Replace the gradients that are there."""
        left = iter(gradients)
        self.gradients = [None if each is None else next(left) for each in self.gradients]


@contextmanager
def _kept_update(optimizer: Any) -> Iterator[_Update]:
    """Keep the update that is asked of an optimizer in the block, and do not make it."""
    update = _Update()

    def apply(grads: Any, trainable_variables: Any = None) -> None:
        update.gradients, update.variables = list(grads), list(trainable_variables)

    # On the object, and past Keras's own __setattr__, which would track it.
    object.__setattr__(optimizer, "apply", apply)
    try:
        yield update
    finally:
        object.__delattr__(optimizer, "apply")


def _rows(part: Any, start: Any, stop: Any) -> Any:
    if part is None or not len(part.shape):
        return part
    sparse = arrays.rows_of_sparse(part, start, stop)
    return part[start:stop] if sparse is None else sparse
