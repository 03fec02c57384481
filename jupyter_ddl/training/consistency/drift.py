"""Reports ranks that hold different weights: since when, which, where, by how much, the likely cause and the remedy.

Runs on: every rank. Imports no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_ddl.errors import RanksOutOfSync
from jupyter_ddl.protocol.rank_sets import named

_LAYERS_NAMED = 3
_STATE_NAMED = 2
_BROADCAST = "hvd.callbacks.BroadcastGlobalVariablesCallback(0)"
_WRAP = "Wrap the optimizer with hvd.DistributedOptimizer"
_LEARNING_RATE = (
    "the learning rates differ ({rates}), set by a callback on some ranks only, or by what each rank measured alone."
)
_STATE = "the optimizer's state differs too ({state}): loaded on some ranks only, or fed with gradients of their own."
_BEGINNING = "the ranks began with different weights, by different seeds or files, and none was broadcast."
_SOME = "these were set on some ranks only, or are trained by something that exchanges no gradients."
_LATER = "in epoch {epoch} weights were set on some ranks only, by a callback or from a file."


@dataclass(frozen=True)
class Weight:
    """A weight that differs.

    Attributes:
        path: in the model of the first rank, e.g. "conv2d_1/kernel".
        apart: the norm of the difference over the weight's own, of the rank that is farthest off; nan where that has
            something that is not a number; None where it was not measured.
        is_matrix: it has two dimensions or more, so that it begins with random numbers.
    """

    path: str
    apart: float | None = None
    is_matrix: bool = True


@dataclass(frozen=True)
class Drift:
    """How the ranks differ.

    Attributes:
        ranks: those that differ from most others.
        reference: those that they differ from, which agree with each other.
        world_size: the number of all.
        weights: those that differ, in the model's order.
        matrices: how many weights with two dimensions or more were compared.
        since_epoch: in which epoch it began, from 1; None where the weights were not compared before.
        first_steps: after how many steps of it, where they were compared then for the first time.
        optimizer: the optimizer's variables that differ too.
        rates: the learning rate of each rank, where they differ.
    """

    ranks: tuple[int, ...]
    reference: tuple[int, ...]
    world_size: int
    weights: tuple[Weight, ...]
    matrices: int = 0
    since_epoch: int | None = None
    first_steps: int | None = None
    optimizer: tuple[str, ...] = ()
    rates: dict[int, float] = field(default_factory=dict)

    def error(self) -> RanksOutOfSync:
        """Return the error to raise."""
        return RanksOutOfSync(str(self), self.ranks, self.weights[0].path)

    def __str__(self) -> str:
        """Return the rule, what was found, the likely cause and the remedy."""
        cause, remedy = _cause(self)
        return f"All ranks must hold the same weights. Received: {self._who()} {self._where()}.{cause} {remedy}"

    def _who(self) -> str:
        ranks = named(self.ranks)
        others = named(self.reference)
        differ = "differs" if len(self.ranks) == 1 else "differ"
        return f"{ranks} of {self.world_size} {differ} from {others}{self._since()}"

    def _since(self) -> str:
        if self.since_epoch is None:
            return ""
        after = "" if self.first_steps is None else f" (seen after step {self.first_steps})"
        return f" since epoch {self.since_epoch}{after},"

    def _where(self) -> str:
        layers: dict[str, list[str]] = {}
        for weight in self.weights:
            layer, _, name = weight.path.rpartition("/")
            layers.setdefault(layer, []).append(f"{name}{_by(weight.apart)}")
        shown = [f"{layer} ({', '.join(names)})" if layer else ", ".join(names) for layer, names in layers.items()]
        more = len(shown) - _LAYERS_NAMED
        rest = f" and {more} more" if more > 0 else ""
        return f"in {'layer ' if layers.keys() - {''} else ''}{', '.join(shown[:_LAYERS_NAMED])}{rest}"


def _by(apart: float | None) -> str:
    if apart is None:
        return ""
    return " is not a number" if apart != apart else f" by {apart:.2g} of its norm"


def _cause(drift: Drift) -> tuple[str, str]:
    """Return the likely cause, as a sentence of its own or empty, and the remedy."""
    if drift.rates:
        cause, remedy = _LEARNING_RATE, "Let all ranks set it, after hvd.callbacks.MetricAverageCallback."
    elif drift.optimizer:
        cause, remedy = _STATE, f"{_WRAP} and pass {_BROADCAST} to fit."
    elif drift.since_epoch is None:
        return "", f"{_WRAP} and pass {_BROADCAST} to fit."
    elif drift.first_steps is None:
        cause, remedy = _LATER, "Set them on all ranks, or call hvd.broadcast_variables(model.weights, 0) after it."
    elif sum(weight.is_matrix for weight in drift.weights) == drift.matrices:
        cause, remedy = _BEGINNING, f"Pass {_BROADCAST} to fit."
    else:
        cause, remedy = _SOME, f"Pass {_BROADCAST} to fit, and train all weights with one hvd.DistributedOptimizer."
    more = len(drift.optimizer) - _STATE_NAMED
    text = cause.format(
        rates=", ".join(f"{rate:g} on rank {rank}" for rank, rate in drift.rates.items()),
        state=", ".join(drift.optimizer[:_STATE_NAMED]) + (f" and {more} more" if more > 0 else ""),
        epoch=drift.since_epoch,
    )
    return f" Likely cause: {text}", remedy
