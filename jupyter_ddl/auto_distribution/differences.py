"""Finds parts of a model that compute something else on several ranks than in one process, from its code.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.auto_distribution.plan import printed
from jupyter_ddl.auto_distribution.step_settings import has_own_step, is_own
from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.training.batch_losses import Kind, losses_of
from jupyter_ddl.training.code_names import names_in
from jupyter_ddl.training.metric_readings import adds_up, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# The methods by which a custom step computes the loss of `compile`.
_SUMS = ("sum", "none", None)
_LOSS_OF_COMPILE = {"compute_loss", "_compute_loss", "compiled_loss", "train_step"}


def rows(model: Any, *, whole_batches: bool) -> dict[str, str]:
    """Return the plan's rows about what differs, by their names.

    Args:
        model: compiled.
        whole_batches: the ranks' batches are parts of one.
    """
    compiled = getattr(model, "_compile_loss", None)
    given = [] if compiled is None else keras.tree.flatten(compiled._user_loss)
    has_sums = any(isinstance(loss, keras.losses.Loss) and loss.reduction in _SUMS for loss in given)
    losses = plan_texts.loss(_own_losses(model), has_sums=has_sums, whole_batches=whole_batches)
    return plan_texts.joined({"loss": losses, "metrics": list(_metrics(model))})


def _own_losses(model: Any) -> list[str]:
    """Return the program's own code that computes a loss other than `compile`'s."""
    own = []
    if has_own_step(model) and not _LOSS_OF_COMPILE & names_in(type(model).train_step):
        own.append("train_step")
    if is_own(type(model).compute_loss) and "compute_loss" not in names_in(type(model).compute_loss):
        own.append("compute_loss")
    own += [
        f"add_loss of {type(layer).__name__}"
        for layer in model._flatten_layers()
        if is_own(type(layer)) and "add_loss" in names_in(type(layer).call)
    ]
    return own


def _metrics(model: Any) -> Iterator[str]:
    for metric in _given_metrics(model):
        kind = type(metric)
        if is_own(kind) and (is_own(kind.result) or is_own(kind.update_state)):
            yield plan_texts.metric(kind.__name__, adds_up=adds_up(metric))


def _given_metrics(model: Any) -> Iterator[Any]:
    """Return the metrics of `compile`, which Keras may not have built yet, and those that the model has itself."""
    compiled = getattr(model, "_compile_metrics", None)
    if compiled is not None:
        given = (compiled._user_metrics, compiled._user_weighted_metrics)
        yield from (each for each in keras.tree.flatten(given) if isinstance(each, keras.metrics.Metric))
    for metric in model.metrics:
        yield from (part for part in parts_of(metric) if metric is not compiled)


class LossesOfWholeBatches(keras.callbacks.Callback):
    """Prints once which losses of `compile` need the whole batch, as the first steps have found."""

    def __init__(self) -> None:
        super().__init__()
        self._is_done = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Check, until it is known."""
        self._look(is_last=False)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Check for the last time."""
        self._look(is_last=True)

    def _look(self, *, is_last: bool) -> None:
        if self._is_done:
            return
        kinds = {loss.title: loss.kind() for loss in losses_of(self.model)}
        self._is_done = is_last or Kind.UNKNOWN not in kinds.values()
        if not self._is_done:
            return
        for title, kind in kinds.items():
            if kind is Kind.WHOLE:
                printed().note(
                    f"The loss {title} is neither a mean nor a sum over samples: it needs the whole batch, and each "
                    "rank has a part of it. The mean of the ranks' losses is not one process's. --batch per-rank gives "
                    "each rank a batch of its own."
                )
            elif kind is Kind.UNKNOWN:
                printed().note(
                    f"The loss {title} is assumed to be a mean over the batch: it could not be checked, since the "
                    "parts of a batch have one sample."
                )
