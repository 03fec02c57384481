"""Gives each rank what all must know of each other before a library's own collective begins: addresses and ports.

A wait in it ends by an interrupt, as no blocking call of MPI's does: it asks again and again whether the messages have
come. What a call that was interrupted left behind has the tag of another call.

Runs on: every rank.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import threading
from typing import TYPE_CHECKING, Any
from zlib import crc32

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import Turn
    from jupyter_ddl.engine.world import World

_ASK_S = 0.002
# The least that MPI allows for its largest tag. Source: MPI 4.1, 9.1.2
_TAGS = 32767
# What the libraries say where another rank's process, or training, has ended: any error of XGBoost's sockets, and
# LightGBM's. Source: xgboost 3.2, src/collective/result.cc; LightGBM 4.7, src/network/linkers_socket.cpp
_ENDED_ELSEWHERE = re.compile(r"src/collective/result\.cc|Socket recv error|Socket send error")


class Exchange:
    """The exchange before a library's collective; to the engine, a library of collectives itself.

    Attributes:
        world: the rank's; the composition root sets it.
    """

    def __init__(self) -> None:
        self.world: World | None = None
        self._run = ""
        self._calls = 0
        self._is_on_subset = False

    def begin_cell(self, turn: Turn) -> None:
        """Note that a cell begins: its calls are counted from 0, on all ranks alike."""
        self._run, self._calls, self._is_on_subset = turn.run, 0, turn.on_subset

    def end_cell(self) -> None:
        """Do nothing: nothing outlives a cell."""

    def raised(self) -> None:
        """Do nothing: a training that raises closes its sockets, which ends it on the other ranks."""

    def release(self) -> None:
        """Do nothing: an interrupt ends a wait here, and a training between two of its rounds."""

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error's text says that another rank has ended the training."""
        return _ENDED_ELSEWHERE.search(text) is not None

    def entered(self) -> int | None:
        """Return None: the libraries' collectives are not counted."""
        return None

    def allgather(self, value: object) -> list[Any]:
        """Return what each rank gave, by rank.

        Collective: every rank must call this, in the same order.

        Raises:
            InvalidInput: only some of the ranks run the cell.
        """
        assert self.world is not None, "the composition root sets it"
        if self._is_on_subset:
            raise InvalidInput(
                "All ranks must train together.", "a cell on some of them", "Run it on all ranks, without -r."
            )
        communicator, rank, size = self.world.communicator, self.world.rank, self.world.world_size
        tag = crc32(f"{self._run} {self._calls}".encode()) % _TAGS
        self._calls += 1
        others = [other for other in range(size) if other != rank]
        sent = [communicator.isend(pickle.dumps(value), other, tag) for other in others]
        # In the order of ranks, each as it comes.
        given: dict[int, Any] = {rank: value}
        pause = threading.Event()
        while len(given) < size or not all(request.Test() for request in sent):
            for other in others:
                if other not in given and communicator.Iprobe(other, tag):
                    given[other] = pickle.loads(communicator.recv(source=other, tag=tag))  # noqa: S301  a rank's
            pause.wait(_ASK_S)
        return [given[other] for other in range(size)]


def here() -> Exchange:
    """Return this rank's exchange.

    Raises:
        InvalidInput: this process is no rank.
    """
    return rank_state.here().part(Exchange)


def world_of(exchange: Exchange) -> tuple[int, int]:
    """Return this rank's number, and how many ranks there are."""
    assert exchange.world is not None, "the composition root sets it"
    return exchange.world.rank, exchange.world.world_size


def own_address() -> str:
    """Return an address of this host that the other ranks reach: of the interface towards rank 0's.

    MASTER_ADDR, which the engine sets for PyTorch, is rank 0's; loopback where all ranks are on one host.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], 9))
        return str(probe.getsockname()[0])
