"""Reads which hosts take how many ranks: `nodea:2,nodeb:2`, as horovodrun's `-H` takes it, or a hostfile of MPI's.

Example:
    >>> read_hosts("nodea:2,nodeb")
    (HostSlots(host='nodea', slots=2), HostSlots(host='nodeb', slots=1))
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place import HostSlots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# No name begins with a hyphen: ssh would take it for an option. A colon separates the slots, so an IPv6 address stands
# in brackets.
_ENTRY = re.compile(r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<slots>[0-9]{1,7}))?")
# Open MPI writes `nodea slots=2 max_slots=4`, MPICH `nodea:2`, Intel MPI the same.
_LINE = re.compile(r"(?P<entry>\S+)(?:\s+slots\s*=\s*(?P<slots>[0-9]{1,7}))?(?:\s+max[-_]slots\s*=\s*[0-9]+)?")
_FILE_BYTES = 1 << 20


def read_hosts(text: str) -> tuple[HostSlots, ...]:
    """Return the hosts that `-H` names: `HOST[:SLOTS]`, separated by commas; one slot where none is given.

    Raises:
        InvalidInput: it names no host, one twice, or something that is none.
    """
    return _once_each(_entry(part.strip(), f"-H {text}") for part in text.split(","))


def read_hostfile(path: Path) -> tuple[HostSlots, ...]:
    """Return the hosts of a hostfile: a line each, `HOST slots=N` or `HOST:N`, with comments after `#`.

    A host on several lines, as PBS and LSF write one for each slot, gets the sum of their slots.

    Raises:
        InvalidInput: it cannot be read, or a line is none of these.
    """
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_FILE_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput("A hostfile must be a text file.", f"{path} ({reason})", "Correct its name.") from error
    slots: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        said = line.partition("#")[0].strip()
        if said:
            host = _line(said, f"line {number} of {path}")
            slots[host.host] = slots.get(host.host, 0) + host.slots
    if not slots:
        raise InvalidInput(
            "A hostfile must name a host.", f"{path}, which names none", "Write lines such as: nodea slots=2"
        )
    return tuple(HostSlots(host, count) for host, count in slots.items())


def _line(said: str, where: str) -> HostSlots:
    found = _LINE.fullmatch(said)
    if found is None:
        raise _no_host(said, where)
    host = _entry(found["entry"], where)
    return host if found["slots"] is None else HostSlots(host.host, _slots(found["slots"], said, where))


def _entry(text: str, where: str) -> HostSlots:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise _no_host(text, where)
    return HostSlots(found["host"].strip("[]"), _slots(found["slots"] or "1", text, where))


def _slots(digits: str, text: str, where: str) -> int:
    if int(digits) < 1:
        raise _no_host(text, where)
    return int(digits)


def _no_host(text: str, where: str) -> InvalidInput:
    return InvalidInput(
        "A host must be a name or an address, with the number of its ranks after a colon.",
        f"{text!r} in {where}",
        "Write -H nodea:2,nodeb:2, or a line such as `nodea slots=2` in a hostfile.",
    )


def _once_each(hosts: Iterable[HostSlots]) -> tuple[HostSlots, ...]:
    return tuple(_checked(hosts))


def _checked(hosts: Iterable[HostSlots]) -> Iterator[HostSlots]:
    seen = set[str]()
    for host in hosts:
        if host.host in seen:
            raise InvalidInput(
                "-H names each host once.",
                f"{host.host}, twice",
                f"Add up its slots: {host.host}:2.",
            )
        seen.add(host.host)
        yield host
