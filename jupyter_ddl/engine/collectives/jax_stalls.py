"""What `stalls` watches of JAX: the computations that exchange, and the coordination service for the ranks' notes.

Runs on: every rank. Nothing here imports JAX.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import torch_frames
from jupyter_ddl.engine.collectives.stalls import Within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jupyter_ddl.engine.collectives.jax_calls import Calls
    from jupyter_ddl.engine.collectives.stalls import Groups

_DEVICES = "jax.devices()"
_PREFIX = "jupyter_ddl/stalls/"


class JaxWatched:
    """The computations of JAX on one rank.

    Args:
        world_size: the number of all ranks.
        calls: this rank's.
        client: returns this rank's client of the coordination service; None where it has none.
    """

    unknown = "a computation of JAX"
    framework = "JAX"
    # A computation that exchanges also computes, on each rank for as long as it takes there.
    ends_together = False

    def __init__(self, world_size: int, calls: Calls, client: Callable[[], Any]) -> None:
        self._all = tuple(range(world_size))
        self._calls = calls
        self._client = client
        # How often this rank's devices were made, with the other ranks; and whether they are being made.
        self._made = 0
        self._is_making = False

    def begin(self) -> None:
        """Begin again: processes are made."""
        self._made = 0
        self._calls.begin()

    @contextmanager
    def making_devices(self) -> Iterator[None]:
        """Note that the block makes this rank's devices, for which all ranks wait."""
        self._made += 1
        self._is_making = True
        try:
            yield
        finally:
            self._is_making = False

    def groups(self) -> Groups:
        """Return how many computations this rank has begun, by the ranks that exchange in them."""
        found: Groups = {_DEVICES: (self._made, self._all)}
        if self._client() is None:
            return {}
        return found | {
            group: (count, tuple(map(int, group.split(",")))) for group, count in self._calls.counts().items()
        }

    def place(self) -> object:
        """Return where the main thread is."""
        return torch_frames.place(sys._current_frames().get(threading.main_thread().ident or 0))

    def within(self) -> Within:
        """Return the latest computation, where one has not ended: it waits for other ranks, or computes."""
        if self._is_making:
            return Within(_DEVICES, is_sure=True)
        latest = self._calls.latest() if self._calls.waits() else None
        return Within(may_wait=False) if latest is None else Within(latest, is_sure=True)

    def following(self, group: str, count: int) -> str | None:
        """Return the name of a computation."""
        return _DEVICES if group == _DEVICES else self._calls.name_of(group, count + 1)

    def board(self) -> Board | None:
        """Return the coordination service."""
        client = self._client()
        return None if client is None else Board(client)


class Board:
    """The coordination service as a place for notes."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def set(self, key: str, text: str) -> None:
        """Note a text."""
        self._client.key_value_set(_PREFIX + key, text, allow_overwrite=True)

    def read(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the texts that are there."""
        folders = {f"{(_PREFIX + key).rpartition('/')[0]}/" for key in keys}
        found = {key: text for folder in folders for key, text in self._client.key_value_dir_get(folder)}
        return {key: found[_PREFIX + key] for key in keys if _PREFIX + key in found}
