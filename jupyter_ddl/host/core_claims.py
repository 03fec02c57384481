"""Tells other users' programs on this host which cores ranks keep to, so that no two worlds keep to the same ones.

No folder is both open to all users and safe from them, and a lock of files would need one. So a claim is the name of a
unix socket in Linux's abstract namespace, where every process of the host (of its network namespace) sees it in
/proc/net/unix. The socket takes no connection, and Linux removes the name when its process ends, whatever ended it.

Who claims first gets the cores. Each puts up its own claim before it looks at the others': of two that do so at one
moment, one or both withdraw, and never do both keep to the cores. Another user can put up false claims: ranks are then
bound to no core, as without this module.

Source: unix(7), "abstract"; proc(5), /proc/net/unix.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREFIX = "jupyter_ddl-cores/"
_SOCKETS = Path("/proc/net/unix")
_LONGEST = 100
# Of what others write, no more than a machine can have.
_CLAIM = re.compile(rf" @({_PREFIX}(\d{{1,5}}(?:-\d{{1,5}})?(?:,\d{{1,5}}(?:-\d{{1,5}})?)*)/[0-9a-f]{{16}})$")


def claim(cores: Iterable[int]) -> bool:
    """Claim cores for ranks that keep to them, until this process ends; return whether they were free.

    Where another claim has one of them, nothing is claimed. Where the host has no such sockets, it is as if it were
    alone.

    Args:
        cores: numbers of logical cores, at least one.

    Example:
        >>> claim({0, 1})
        True
    """
    wanted = set(cores)
    own = _name(wanted)
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0{own}")
        taken = any(not wanted.isdisjoint(theirs) for name, theirs in _claims() if name != own)
    except OSError:
        held.close()
        return True
    if taken:
        held.close()
        return False
    # Open until this process has ended.
    held.detach()
    return True


def _name(cores: set[int]) -> str:
    """Return a name of its own for a claim, with the cores as ranges; as one where they would be too many."""
    ordered = sorted(cores)
    ranges: list[list[int]] = []
    for core in ordered:
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    token = secrets.token_hex(8)
    name = f"{_PREFIX}{','.join(f'{first}-{last}' for first, last in ranges)}/{token}"
    return name if len(name) <= _LONGEST else f"{_PREFIX}{ordered[0]}-{ordered[-1]}/{token}"


def _claims() -> Iterator[tuple[str, set[int]]]:
    """Yield each claim on this host, by name, and its cores.

    Raises:
        OSError: they cannot be read.
    """
    for line in os.fsdecode(_SOCKETS.read_bytes()).splitlines():
        if found := _CLAIM.search(line):
            yield found[1], {core for part in found[2].split(",") for core in _range(part)}


def _range(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)
