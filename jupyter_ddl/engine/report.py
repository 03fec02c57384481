"""Provides `jupyter_ddl.report()`, by which a training loop of the program's own shows as `fit` does.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.meter import number_of
from jupyter_ddl.errors import InvalidInput

# How much of a value that is no number an error shows.
_SHOWN = 60


def report(samples: float | None = None, loss: float | None = None, **metrics: float) -> None:
    """Report one step of a training loop of your own, so that it shows as `fit` does.

    Keras's `fit` reports by itself, and so does a loop of PyTorch's, but for its loss and its metrics.

    Costs a microsecond; outside of a cell on the ranks nothing is shown. NaN and the infinities are numbers here,
    and show as such.

    Runs on: every rank that trains.

    Args:
        samples: how many this rank trained on in the step; may be left out where a DataLoader of PyTorch's gives them.
        loss: the step's loss, a number: of Python, or one value of NumPy, Keras, TensorFlow or PyTorch.
        metrics: what else is to show, by name, each a number as `loss` is.

    Raises:
        InvalidInput: one of them is no number.

    Example:
        >>> jupyter_ddl.report(32, loss=0.25, accuracy=0.9)
    """
    count = None if samples is None else _reported("samples", samples)
    value = None if loss is None else _reported("loss", loss)
    shown = {_sendable(name): _reported(name, metric) for name, metric in metrics.items()}
    state = rank_state.of_process()
    if state is not None:
        state.meter.reports.add(count, value, shown)


def _reported(name: str, value: Any) -> float:
    try:
        return number_of(value)
    except (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError) as error:
        # The last three: TensorFlow's and PyTorch's tensors without a value, of a graph that is being made.
        shown = repr(value)
        raise InvalidInput(
            "What is reported must be a number.",
            f"{name}={shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}",
            "Pass one value, e.g. float(loss) outside of tf.function.",
        ) from error


def _sendable(name: str) -> str:
    """Return a name that UTF-8 can encode."""
    return name.encode("utf-8", "backslashreplace").decode()
