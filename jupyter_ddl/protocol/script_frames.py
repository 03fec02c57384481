"""What passes between the terminal of a script and the relay beside each rank on another host, over ZeroMQ.

Every message is a kind and its content. To the terminal: HELLO, then STDOUT, STDERR and EVENTS as the rank wrote them,
BEAT while it writes nothing, and END. To the relay: REQUEST, and BYE once END has come. The connection is encrypted
(CURVE), and the terminal takes nothing from a peer that has not said the token.

Runs on: the terminal's process, and a relay beside every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jupyter_ddl.protocol.codec import Int64, Wire
from jupyter_ddl.protocol.faults import MemoryExcess  # noqa: TC001  get_type_hints reads it

HELLO, STDOUT, STDERR, EVENTS, BEAT, END = b"hello", b"stdout", b"stderr", b"events", b"beat", b"end"
REQUEST, BYE = b"request", b"bye"
FRAMES = 2
CHUNK_BYTES = 1 << 16
# Messages of CHUNK_BYTES that each end keeps while the terminal does not read: then the rank waits when it prints.
KEPT_MESSAGES = 32
# What the ranks send each other of it: longer than any.
CONNECTION_BYTES = 1024


@dataclass(frozen=True)
class Connection(Wire):
    """Where the terminal is. It reaches rank 0 by mpiexec's input, the others by a broadcast, relays by a pipe.

    Attributes:
        address: as ZeroMQ writes it.
        server_key: the terminal's public key; who does not know it cannot connect.
        token: what a relay must say.
        rank: whose relay it is; -1 before a rank has it.
    """

    type: ClassVar[str] = "connection"
    address: str
    server_key: str
    token: str
    rank: Int64 = -1


@dataclass(frozen=True)
class Hello(Wire):
    """A relay's first message.

    Attributes:
        host: its host's own name.
    """

    type: ClassVar[str] = "hello"
    token: str
    rank: Int64
    host: str


@dataclass(frozen=True)
class RankEnded(Wire):
    """How a rank's process ended. It comes after all that the rank wrote.

    Attributes:
        at_s: when, seconds since the epoch on the rank's host.
        status: its exit status; of one that a signal ended, the signal's number with a minus.
        oom_kills: how often the Linux kernel of its host ended a process for lack of memory while it lived.
        asked: the relay was asked to end it, so that its end was not its own.
        excess: the memory for which the relay ended it; None where it did not.
    """

    type: ClassVar[str] = "rank_ended"
    rank: Int64
    host: str
    pid: Int64
    at_s: float
    status: Int64
    oom_kills: Int64
    asked: bool
    excess: MemoryExcess | None = None
