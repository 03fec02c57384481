"""What `stalls` watches of torch.distributed: its groups, where the main thread is, and the store of the ranks' notes.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import torch_frames
from jupyter_ddl.engine.collectives.stalls import Within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.engine.collectives.stalls import Groups


class TorchWatched:
    """The collectives of torch on one rank.

    Args:
        groups: returns group -> this rank's count, and the group's ranks.
        connect: returns a connection of its own to the ranks' store; None while rank 0 does not serve it.
    """

    unknown = "a collective of torch.distributed"
    framework = "torch"
    ends_together = True

    def __init__(self, groups: Callable[[], Groups], connect: Callable[[], Any]) -> None:
        self.groups = groups
        self._connect = connect

    def place(self) -> object:
        """Return where the main thread is."""
        return torch_frames.place(sys._current_frames().get(threading.main_thread().ident or 0))

    def within(self) -> Within:
        """Return what it is in, by its frames."""
        name = torch_frames.collective(sys._current_frames().get(threading.main_thread().ident or 0))
        return Within(name, is_sure=name not in (None, torch_frames.BACKWARD))

    def following(self, _group: str, _count: int) -> None:
        """Return None: who is missing is missing in the one that this rank is in."""

    def board(self) -> Board | None:
        """Return a connection to the store."""
        store = self._connect()
        return None if store is None else Board(store)


class Board:
    """Torch's store as a place for notes."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, text: str) -> None:
        """Note a text."""
        self._store.set(key, text)

    def read(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the texts that are there: for others the store's `get` would wait."""
        return {key: self._store.get(key).decode() for key in keys if self._store.check([key])}
