"""Serves `K.set_learning_phase` where that is possible: in Keras 3 no global switch says whether layers train."""

from __future__ import annotations

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.legacy.notices import say

_REMEDY = (
    "Leave set_learning_phase out: fit trains, evaluate and predict do not. For a part of a model that must not train, "
    "write layer.trainable = False, or call it with training=False."
)
_phase: list[int] = []


def learning_phase() -> int:
    """Return what was set; 0 by default, as TensorFlow 2 had it outside of `fit`."""
    say("learning_phase")
    return _phase[-1] if _phase else 0


def set_learning_phase(value: int) -> None:
    """Accept a phase that asks for nothing else than Keras 3 does.

    Raises:
        InvalidInput: the phase is switched, which made the layers between two calls train or not.
    """
    if value not in (0, 1):
        raise InvalidInput("A learning phase is 0 or 1.", f"set_learning_phase({value!r})", _REMEDY)
    say("learning_phase")
    if _phase and _phase[-1] != value:
        raise InvalidInput(
            "In Keras 3 no switch says whether layers train.",
            f"set_learning_phase({value}) after set_learning_phase({_phase[-1]})",
            _REMEDY,
        )
    _phase.append(int(value))


def forget() -> None:
    """Go back to the default, as `K.clear_session()` did."""
    _phase.clear()


def require_training_phase() -> None:
    """Raise if layers were set not to train.

    Raises:
        InvalidInput: `fit` after set_learning_phase(0).
    """
    if _phase and _phase[-1] == 0:
        raise InvalidInput(
            "In Keras 3 no switch says whether layers train.", "fit after K.set_learning_phase(0)", _REMEDY
        )
