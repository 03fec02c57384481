"""Shows whether other hosts can connect to this one, as MPI's daemons and ranks must: ports that SSH needs are too few.

Nothing is accepted: that the system takes the connection is the answer.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.launch.address import address_towards, own_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A firewall that drops what comes leaves no other sign.
_CONNECT_S = 5.0
_WAITING = 4096


@contextmanager
def listening(interface: str | None) -> Iterator[Callable[[str], str]]:
    """Listen, for the length of the block; yield what gives the address and port for a host to connect to.

    It gives "" for a host whose name is known to SSH alone.

    Args:
        interface: this host's, or its address, by which hosts are to reach it; None for the one on the route to each.

    Raises:
        InvalidInput: this host has no such interface.
    """
    chosen = None if interface is None else own_address(interface)
    with ExitStack() as stack:
        ports: dict[str, int] = {}

        def towards(host: str) -> str:
            try:
                address = chosen or address_towards(host)
            except InvalidInput:
                return ""
            if address not in ports:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                server = stack.enter_context(socket.create_server((address, 0), family=family, backlog=_WAITING))
                ports[address] = server.getsockname()[1]
            return f"{address}:{ports[address]}"

        yield towards


def unreached(there: str) -> str:
    """Return why this host cannot connect to an address and port; "" where it can, or none is given."""
    address, _, port = there.rpartition(":")
    if not address:
        return ""
    try:
        socket.create_connection((address, int(port)), _CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def cannot_call_back(host: str, unreached: str) -> HostUnfit:
    """Return the error of a host that cannot connect to this one.

    Args:
        host: its name, as it was given.
        unreached: the address and port to which it tried to connect, and what its system said.
    """
    return HostUnfit(
        f"{host} must be able to connect to this host.",
        unreached,
        "Open the firewall between them, or name another network by --interface. Ranks of a notebook need no way back: "
        "%ddl start holds them on the first of the hosts and reaches them through SSH, %ddl submit in a job.",
    )
