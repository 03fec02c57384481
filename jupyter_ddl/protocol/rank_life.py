"""Defines what becomes of a rank, whatever it runs, as events: it can run cells, it answers or does not, it is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jupyter_ddl.protocol.codec import Int64, Wire
from jupyter_ddl.protocol.faults import Fault  # noqa: TC001  get_type_hints reads it


@dataclass(frozen=True)
class RankReady(Wire):
    """A rank can run cells.

    Attributes:
        device: what the rank computes on, e.g. "GPU 2 (NVIDIA H200)" or "CPU".
        threads: TensorFlow's intra-op threads on this rank.
        uses_horovod: a cell has called `hvd.init()`; a kernel that attaches must know it.
    """

    type: ClassVar[str] = "rank_ready"
    rank: Int64
    world_size: Int64
    local_rank: Int64
    host: str
    pid: Int64
    device: str
    threads: Int64
    uses_horovod: bool = False


@dataclass(frozen=True)
class RankWarm(Wire):
    """A rank has imported TensorFlow and Horovod, or could not.

    Attributes:
        versions: name -> version of what was imported.
        seconds: since the rank's process began.
        problem: why Horovod cannot be used on this rank; None when it can.
    """

    type: ClassVar[str] = "rank_warm"
    rank: Int64
    versions: dict[str, str]
    seconds: float
    problem: str | None = None


@dataclass(frozen=True)
class RankAlive(Wire):
    """A rank answers: its process runs, and Python code in it can.

    Attributes:
        interrupted: the run in whose code a KeyboardInterrupt was raised last, which may still unwind; None for none.
    """

    type: ClassVar[str] = "rank_alive"
    rank: Int64
    interrupted: str | None = None


@dataclass(frozen=True)
class RankSilent(Wire):
    """A rank has not answered for a while; or it answers again.

    Attributes:
        seconds: for how long it has not answered, or had not.
        fault: what is known of its process; None where it is back.
    """

    type: ClassVar[str] = "rank_silent"
    rank: Int64
    seconds: float
    fault: Fault | None
    at_s: float
    is_back: bool = False


@dataclass(frozen=True)
class RankLost(Wire):
    """A rank's process ended, and the whole MPI job with it; `rank` is None where no rank was the first.

    Attributes:
        fault: how it ended: "lost", or "stopped" where that was requested.
    """

    type: ClassVar[str] = "rank_lost"
    rank: Int64 | None
    fault: Fault
    at_s: float

    @property
    def asked(self) -> bool:
        """Whether the ranks were stopped, by their user or with their kernel."""
        return self.fault.kind == "stopped"
