"""Agrees on the address at which ranks find each other, and sets the variables that frameworks read it from.

They are torchrun's, so that a program which torchrun starts runs as it is:
https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables

Runs on: every rank, once, before the first cell.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psutil

from jupyter_ddl.host.interfaces import interfaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.engine.world import World

_LOOPBACK = "127.0.0.1"
_CONNECT_S = 2.0


@dataclass(frozen=True)
class MeetingPoint:
    """Where rank 0 is found.

    Attributes:
        address: of an interface of rank 0's host that all hosts reach; loopback where there is one host.
        port: of rank 0, which keeps it for as long as it lives.
        listener: rank 0's socket, which does not listen yet; None on the others.
        interface: this host's network interface towards that address.
    """

    address: str
    port: int
    listener: socket.socket | None
    interface: str

    @classmethod
    def of(cls, world: World) -> MeetingPoint:
        """Agree on it.

        Collective: every rank must call this.
        """
        if world.local_size == world.world_size:
            listener = _bound(_LOOPBACK, 0) if world.rank == 0 else None
            address, addresses = _LOOPBACK, [_LOOPBACK]
        else:
            listener = _bound("", 0) if world.rank == 0 else None
            addresses = _own_addresses() if world.rank == 0 else []
        port = world.communicator.bcast(listener.getsockname()[1] if listener is not None else 0)
        if world.local_size != world.world_size:
            address = _reached_by_all(world, listener, port, world.communicator.bcast(addresses))
            if listener is not None:
                listener.close()
                listener = _bound(address, port)
        return cls(address, port, listener, _interface_towards(address))

    def beside(self, world: World) -> MeetingPoint:
        """Return one at another port of the same address.

        Collective: every rank must call this.
        """
        listener = _bound(self.address, 0) if world.rank == 0 else None
        port = world.communicator.bcast(listener.getsockname()[1] if listener is not None else 0)
        return replace(self, port=port, listener=listener)

    def variables(self, world: World) -> dict[str, str]:
        """Return the variables of one rank: those that torch documents for programs of torchrun.

        But for TORCHELASTIC_RUN_ID: a library that finds it holds a program to all ranks, as Lightning does, also in a
        cell on some of them.
        """
        first_of_hosts = world.communicator.allgather(world.host if world.local_rank == 0 else None)
        hosts = [host for host in first_of_hosts if host is not None]
        group_rank = hosts.index(world.host) if world.host in hosts else 0
        return {
            "RANK": str(world.rank),
            "WORLD_SIZE": str(world.world_size),
            "LOCAL_RANK": str(world.local_rank),
            "LOCAL_WORLD_SIZE": str(world.local_size),
            "GROUP_RANK": str(group_rank),
            "GROUP_WORLD_SIZE": str(max(1, len(hosts))),
            "NODE_RANK": str(group_rank),
            "ROLE_NAME": "default",
            "ROLE_RANK": str(world.rank),
            "ROLE_WORLD_SIZE": str(world.world_size),
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }

    def set_variables(self, world: World) -> None:
        """Set them in this process, and keep the libraries' connections to the same network, unless the user chose.

        Collective: every rank must call this.
        """
        os.environ.update(self.variables(world))
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, self.interface)


def _own_addresses() -> list[str]:
    # Without a network torch.distributed finds no peer, and says so; Horovod may have MPI's own.
    return [one.address for one in interfaces() if ":" not in one.address] or [_LOOPBACK]


def _bound(address: str, port: int) -> socket.socket:
    listener = socket.socket()
    if port:
        # It has just been ours.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    return listener


def _reached_by_all(world: World, listener: socket.socket | None, port: int, addresses: Sequence[str]) -> str:
    """Return the first of rank 0's addresses to which every host can connect.

    Collective: every rank must call this.
    """
    if listener is not None:
        listener.listen(world.world_size)
    world.communicator.Barrier()
    asked = addresses if world.local_rank == 0 else []
    reached = {address for address in asked if _connects(address, port)} if asked else set(addresses)
    by_all = set.intersection(*world.communicator.allgather(reached))
    return next((address for address in addresses if address in by_all), addresses[0])


def _connects(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=_CONNECT_S):
        return True
    return False


def _interface_towards(address: str) -> str:
    """Return the name of this host's interface whose address packets to another one leave with."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        own = probe.getsockname()[0]
    named = psutil.net_if_addrs().items()
    return next((name for name, entries in named if any(entry.address == own for entry in entries)), "")
