"""Pickles and unpickles values: whatever their classes' own code raises becomes one clear error.

Pickling and unpickling call methods of the value's class. They may raise anything, SystemExit too, and may never end:
the stop button interrupts them.

Runs on: kernel.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import RunInterrupted, TransferFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType


def serialized(name: str, value: object) -> list[Any]:
    """Return a value as buffers that can be sent.

    Args:
        name: the variable.
        value: what it holds.

    Raises:
        TransferFailed: it cannot be pickled.
        RunInterrupted: an interrupt came meanwhile.
    """
    from ipyparallel.serialize import serialize_object

    with _one_error(
        lambda error: (
            f"A value must be one that pickle can send. Received: {name}, a {type(value).__name__}: {error}. "
            f"Send what it was made from (an array, a path, numbers) and make it again on the ranks."
        )
    ):
        buffers: list[Any] = serialize_object(value)
        return buffers


def rebuilt(name: str, buffers: Mapping[int, Sequence[Any]]) -> dict[int, Any]:
    """Return the values that ranks sent: rank -> value.

    Args:
        name: the variable.
        buffers: rank -> what it sent.

    Raises:
        TransferFailed: it cannot be unpickled.
        RunInterrupted: an interrupt came meanwhile.
    """
    from ipyparallel.serialize import deserialize_object

    with _one_error(
        lambda error: (
            f"A variable must be defined on the ranks, and sendable. Received: {name} from ranks {list(buffers)}: "
            f"rebuilding it in this kernel raised {error}. Pull an array or a plain value instead."
        )
    ):
        return {rank: deserialize_object(sent)[0] for rank, sent in buffers.items()}


@contextmanager
def _one_error(text: Callable[[str], str]) -> Iterator[None]:
    """Turn whatever the block raises into a TransferFailed, and an interrupt of the user's into a RunInterrupted."""
    with _interruptible() as interrupted:
        try:
            yield
        except BaseException as error:  # SystemExit and KeyboardInterrupt too, which a class's code may raise
            if interrupted:
                raise RunInterrupted("Moving values was interrupted.") from error
            raise TransferFailed(text(_described(error))) from error


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  the error's own __str__, of a class of the user's
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Make Ctrl-C and the stop button raise in the block, whatever they do outside it; yield those that came.

    Only the main thread gets interrupts.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def interrupt(signum: int, _frame: FrameType | None) -> None:
        came.append(signum)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)
