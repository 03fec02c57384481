"""Claims GPUs for ranks, so that no two users' ranks get one that is to be one rank's own, or more than it has places.

As in `core_claims` a claim is the name of a unix socket in Linux's abstract namespace, which all users of the host (of
its network namespace) see, and which Linux removes when the process ends, whatever ended it. A name is bound once: so
of two that claim one place at one moment one gets it. Beside it stands a second name, with the user's number, for
people. Another user can put up false claims: ranks are then refused a GPU that is free.

Source: unix(7), "abstract"; proc(5), /proc/net/unix.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host.private_folders import login_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREFIX = "jupyter_ddl-gpus"
_SOCKETS = Path("/proc/net/unix")
_WHOLE = "whole"
_CLAIM = re.compile(rf" @{_PREFIX}/([\w:.-]{{1,64}})/({_WHOLE}|\d{{1,5}})(?:/(\d{{1,10}}))?$", re.ASCII)


@dataclass(frozen=True)
class Claim:
    """A place of a GPU that ranks have.

    Attributes:
        uuid: the GPU's, or the MIG device's; a slash in it is a colon.
        place: its number; None for the whole GPU.
        user: who has it, by its number; None where the claim does not say.
    """

    uuid: str
    place: int | None
    user: int | None


def claim(uuid: str, place: int | None) -> bool:
    """Claim a place of a GPU until this process ends; return whether it was free.

    Where the host has no such sockets, it is as if it were alone.

    Args:
        uuid: the GPU's, or the MIG device's.
        place: its number; None for the whole GPU, which is free where no place of it is claimed.
    """
    name = f"{_PREFIX}/{_named(uuid)}/{_WHOLE if place is None else place}"
    held, by = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with held, by:
        try:
            held.bind(f"\0{name}")
        except OSError as error:
            return error.errno != errno.EADDRINUSE
        # Of a whole GPU and a place of it that are claimed at one moment one or both withdraw.
        if any(one.place != place and None in (one.place, place) for one in claims([uuid])):
            return False
        try:
            by.bind(f"\0{name}/{os.getuid()}")
        except OSError:
            # It is for people only.
            by.close()
        else:
            by.detach()
        # Open until this process has ended.
        held.detach()
    return True


def claims(uuids: Iterable[str]) -> set[Claim]:
    """Return what ranks have of these GPUs, whosever they are; nothing where the host does not say it."""
    wanted = {_named(uuid) for uuid in uuids}
    found: dict[tuple[str, int | None], int | None] = {}
    for uuid, place, user in _read():
        if uuid in wanted:
            found[uuid, place] = user if user is not None else found.get((uuid, place))
    return {Claim(uuid, place, user) for (uuid, place), user in found.items()}


def count_of(uuid: str, among: Iterable[Claim]) -> int:
    """Return how many of these claims are of a GPU."""
    return sum(one.uuid == _named(uuid) for one in among)


def has_whole(uuid: str, among: Iterable[Claim]) -> bool:
    """Return whether one of these claims is of the whole GPU."""
    return any(one.uuid == _named(uuid) and one.place is None for one in among)


def users_of(among: Iterable[Claim]) -> str:
    """Return whose claims these are, for people; "" where none says it."""
    return ", ".join(sorted({login_of(one.user) for one in among if one.user is not None}))


def _named(uuid: str) -> str:
    # Older drivers name a MIG device "MIG-GPU-.../1/0".
    return uuid.replace("/", ":")


def _read() -> Iterator[tuple[str, int | None, int | None]]:
    try:
        lines = os.fsdecode(_SOCKETS.read_bytes()).splitlines()
    except OSError:
        return
    for line in lines:
        if found := _CLAIM.search(line):
            uuid, place, user = found.groups()
            yield uuid, None if place == _WHOLE else int(place), None if user is None else int(user)
