"""Sends what an epoch of the training on this rank came to, validation included, when the next one begins.

A sample, once a second, would miss it: it has what Keras counts at its moment, which after a validation is the next
epoch's.

Runs on: every rank, in the main thread.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Epochs that are shorter than this are not all sent; the last one of a training always is.
LEAST_S = 0.1


class Send(Protocol):
    """Sends one epoch's figures as an event of the run."""

    def __call__(self, epoch: int, step: int, at_s: float, metrics: Mapping[str, float], *, is_last: bool) -> None:
        """Send them."""


class Epochs:
    """The epochs of one rank's current run.

    Args:
        now: returns the time, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._send: Send | None = None
        self._sent_s: float | None = None
        self._pid = 0

    def begin(self, send: Send) -> None:
        """Send with `send` from here on."""
        self._send, self._sent_s, self._pid = send, None, os.getpid()

    def end(self) -> None:
        """Send no more: the run is over on this rank."""
        self._send = None

    def ended(self, epoch: int, step: int, at_s: float, metrics: Mapping[str, float], *, is_last: bool) -> None:
        """Send the figures of an epoch; nothing where no run lasts, and in a process that the code forked.

        Args:
            epoch: from 0.
            step: how many steps the training had taken by then.
            at_s: when it ended, seconds since the epoch of the clock.
            metrics: as Keras logs them, validation's beginning with "val_".
            is_last: no other follows.
        """
        if self._send is None or not metrics or self._pid != os.getpid():
            return
        now_s = self._now()
        if is_last or self._sent_s is None or now_s - self._sent_s >= LEAST_S:
            self._sent_s = now_s
            self._send(epoch, step, at_s, metrics, is_last=is_last)
