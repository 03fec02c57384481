"""Keeps two states of PyTorch's random numbers on a rank: that of its steps, and one that all ranks have alike.

Shuffles draw from the one generator of the host from which Keras's Dropout draws too, as many numbers as a rank has
samples. So a step draws from a state of the rank's own, and the common one is as the other ranks have it when the next
order is drawn. A rank's own state begins from the common one wherever that has changed, and with the rank: a training
that is repeated, or resumed after an epoch, draws the same numbers again.

Runs on: every rank, where Keras is on PyTorch.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch

_STRIDE = 1_000_003


class TorchDraws:
    """The states of one rank."""

    def __init__(self) -> None:
        self._common: Any = None
        self._own: Any = None
        self._is_apart = False

    def begin(self) -> None:
        """Begin a training: forget what was drawn before."""
        self._common = None

    def enter(self, rank: int) -> None:
        """Begin a step: draw from this rank's own state."""
        now = torch.get_rng_state()
        if self._common is None or not torch.equal(now, self._common):
            # Of the GPU too, from which no order is drawn.
            torch.manual_seed(zlib.crc32(now.numpy().tobytes()) + rank * _STRIDE)
            self._own = torch.get_rng_state()
        else:
            torch.set_rng_state(self._own)
        self._common, self._is_apart = now, True

    def leave(self) -> None:
        """End a step: draw as all ranks do."""
        self.alike()

    def apart(self) -> None:
        """Draw this rank's own numbers from here on."""
        if not self._is_apart:
            self._common = torch.get_rng_state()
            torch.set_rng_state(self._own)
            self._is_apart = True

    def alike(self) -> None:
        """Draw alike on all ranks from here on."""
        if self._is_apart:
            self._own = torch.get_rng_state()
            torch.set_rng_state(self._common)
            self._is_apart = False
