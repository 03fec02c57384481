"""Scales the losses of `compile` on a part of a batch: means, sums, and losses that only the whole batch gives.

Gradients are averaged over the ranks, each weighed by its samples. That is one process's gradient where a loss is a
mean over the batch. Where it is a sum, or a mean by weights, it takes a factor; Keras's own losses say which they are.
For a function of the user's own, the first step computes it on two halves of the batch, and compares.

Runs on: every rank.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import keras
from keras.src import backend
from keras.src.losses import loss as loss_module
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.trainers.compile_utils import CompileLoss

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import step
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.parts_of_batches import check_mask
from jupyter_ddl.training.unconverted import unconverted

if TYPE_CHECKING:
    from collections.abc import Callable

# Keras's own losses that are computed from the whole batch at once.
_OF_WHOLE_BATCH = (keras.losses.Dice, keras.losses.Tversky, keras.losses.Circle)
_BY_WEIGHTS = "mean_with_sample_weight"
# The sum of two halves is rounded otherwise, in float32.
_ROUNDING = 1e-4
_TINY = 1e-7


class Kind(IntEnum):
    """What a loss is over the samples of a batch."""

    UNKNOWN = 0
    MEAN = 1
    SUM = 2
    WHOLE = 3


def install() -> None:
    """Wrap the losses of each model that is compiled. Safe to call twice."""
    patch(CompileLoss, "build", _build, Layer.FIT)


def losses_of(model: Any) -> list[LossOfPart]:
    """Return the losses of `compile` that the model has computed so far."""
    compiled = getattr(model, "_compile_loss", None)
    flat = getattr(compiled, "_flat_losses", None) or []
    return [each.loss for each in flat if isinstance(each.loss, LossOfPart)]


class LossOfPart:
    """One loss of `compile`, which in a training step on several ranks counts as part of the whole batch's.

    Args:
        loss: Keras's, or one that Keras made of a function.
        number: which of the model's losses.
    """

    def __init__(self, loss: Any, number: int) -> None:
        self._loss = loss
        self._number = number
        self._found: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the loss itself."""
        if name == "_loss":
            raise AttributeError(name)
        return getattr(self._loss, name)

    @unconverted
    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return the loss; in a training step scaled so that the ranks' mean is that of the whole batch.

        Collective, in a training step: every rank must call this.

        Raises:
            InvalidInput: the step trains a batch in parts, and the loss is a mean over what a mask leaves.
        """
        now = step.current()
        if now is not None and now.manner.parts > 1:
            check_mask(self._loss, y_pred)
        value = self._loss(y_true, y_pred, sample_weight)
        if now is None or now.exchange is None or now.exchange.op != hvd.Average:
            return value
        if self.is_by_weights:
            return self._by_weights(now, value, y_pred, sample_weight)
        is_vector = ops.rank_of(value) != 0
        kind = self._kind_in_graph(value, y_true, y_pred, sample_weight, is_vector=is_vector)
        if kind is Kind.MEAN:
            return value
        factor = now.factor_of_sums(now.exchange)
        if kind is not Kind.SUM:
            factor = ops.where(ops.equal(kind, int(Kind.SUM)), factor, ops.cast(1.0, "float64"))
        factor = ops.cast(factor, value.dtype)
        if not is_vector:
            return value * factor
        # TensorFlow takes the gradient of the sum, and Keras shows the mean.
        now.has_vectors = True
        return value + (factor - 1) * (value - ops.stop_gradient(value))

    @property
    def is_by_weights(self) -> bool:
        """Whether it divides by the sum of the weights instead of their number."""
        return getattr(self._loss, "reduction", None) == _BY_WEIGHTS

    @property
    def title(self) -> str:
        """What the user calls it."""
        function = getattr(self._loss, "fn", None)
        return str(getattr(function, "__name__", type(self._loss).__name__))

    def kind(self) -> Kind:
        """Return what is known of it now."""
        if self._is_kerass():
            return Kind.SUM if self.reduction == "sum" else Kind.MEAN
        return Kind.UNKNOWN if self._found is None else Kind(int(self._found.numpy()))

    def _is_kerass(self) -> bool:
        loss = self._loss
        maker = loss.fn if isinstance(loss, LossFunctionWrapper) else type(loss)
        return str(maker.__module__).startswith("keras.") and not isinstance(loss, _OF_WHOLE_BATCH)

    def _kind_in_graph(self, value: Any, y_true: Any, y_pred: Any, sample_weight: Any, *, is_vector: bool) -> Any:
        """Return the kind: as a Python value, or as a tensor where only computed values show it."""
        if self._is_kerass():
            return Kind.SUM if is_vector or self.reduction == "sum" else Kind.MEAN
        if self._found is None and not ops.is_functional():
            self._found = ops.number(int(Kind.UNKNOWN), "int32", "kind_of_loss")
        total = ops.total(ops.stop_gradient(value))
        parts = _of_each(ops.stop_gradient, (y_true, y_pred, sample_weight))
        masks = [backend.get_keras_mask(part) for part in keras.tree.flatten(y_pred)]
        try:
            if self._found is None:
                # Nothing of a function that is differentiated can be kept for the next step.
                return self._compared(total, parts, masks)
            kind = ops.cond(
                ops.equal(self._found.read_value(), int(Kind.UNKNOWN)),
                lambda: self._compared(total, parts, masks),
                self._found.read_value,
            )
        except Exception:  # noqa: BLE001 (whatever a user's function raises on half of a batch: then it needs a whole)
            kind = ops.cast(int(Kind.WHOLE), "int32")
        if self._found is not None:
            self._found.assign(kind)
        return kind

    def _compared(self, whole: Any, parts: Any, masks: Any) -> Any:
        """Return what the loss is, by its values on the two halves of a batch."""
        first = next(part for part in keras.tree.flatten(parts[1]) if part is not None)
        count = ops.rows(first)
        half = count // 2

        def of(which: slice) -> Any:
            y_true, y_pred, weights = _of_each(lambda part: part[which], parts)
            for part, mask in zip(keras.tree.flatten(y_pred), masks, strict=True):
                if mask is not None:
                    backend.set_keras_mask(part, mask[which])
            return ops.cast(ops.total(self._loss(y_true, y_pred, weights)), whole.dtype)

        one, other = of(slice(None, half)), of(slice(half, None))
        share = ops.cast(half, whole.dtype) / ops.cast(ops.maximum(count, 1), whole.dtype)

        def is_near(expected: Any) -> Any:
            return abs(whole - expected) <= _ROUNDING * abs(whole) + _TINY

        is_mean, is_sum = is_near(share * one + (1 - share) * other), is_near(one + other)
        found = {name: ops.cast(int(name), "int32") for name in Kind}
        kind = ops.where(is_mean, found[Kind.MEAN], ops.where(is_sum, found[Kind.SUM], found[Kind.WHOLE]))
        # One sample, or a loss of 0, shows no difference.
        shows_none = ops.where(is_mean, is_sum, is_mean)
        return ops.where(half > 0, ops.where(shows_none, found[Kind.UNKNOWN], kind), found[Kind.UNKNOWN])

    def _by_weights(self, now: step.Step, value: Any, y_pred: Any, sample_weight: Any) -> Any:
        """Return a mean by weights, times this rank's part of all ranks' weights."""
        assert now.exchange is not None
        mask = backend.get_keras_mask(y_pred)
        weights = loss_module.apply_mask(sample_weight, mask, dtype=value.dtype, reduction=_BY_WEIGHTS)
        if weights is None:
            return value
        process_set = now.exchange.process_set
        own = ops.cast(ops.total(weights), "float64") * now.turn.active.read_value()
        name = f"weights_of_loss_{self._number}"
        every = hvd.allreduce(own, op=hvd.Sum, name=name, process_set=process_set, ignore_name_scope=True)
        size = ops.cast(process_set.size(), "float64")
        share = now.share(process_set)
        factor = ops.divide_no_nan(size * own, ops.stop_gradient(every) * share)
        return value * ops.cast(ops.stop_gradient(factor), value.dtype)


def _of_each(function: Callable[[Any], Any], structure: Any) -> Any:
    return keras.tree.map_structure(lambda part: None if part is None else function(part), structure)


def _build(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    stock(self, *args, **kwargs)
    self._flat_losses = [
        each._replace(loss=LossOfPart(each.loss, number)) for number, each in enumerate(self._flat_losses)
    ]
