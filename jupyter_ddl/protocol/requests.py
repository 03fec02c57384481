"""Defines what the session asks of a rank. `jupyter_ddl.protocol.events` defines what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.codec import Int64, Wire
from jupyter_ddl.protocol.events import CollectiveStalled  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.memory_limit import MemoryLimit  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.task_requests import DropArrays, EndTasks, KeepArray, RunTask
from jupyter_ddl.protocol.value_requests import Move

# Of the messages that carry a request, on ipyparallel's channels to a rank.
MESSAGE_TYPE = "ddl_request"


@dataclass(frozen=True)
class RunCell(Wire):
    """Run a cell on the receiving rank, in its IPython namespace.

    Attributes:
        code: the cell's source, magics and all.
        ranks: every rank that runs it.
        horovod: initialise Horovod before the cell begins. Collective: all ranks of the world are asked, those outside
            `ranks` by PrepareHorovod.
        log_dir: the folder where rank K writes all that it prints during the run, as rank-K.log, on its host.
        options: the cell's.
        horovod_rests: an earlier cell, on any rank, has called `hvd.init()`: Horovod is initialised when this one needs
            it.
        released: the run that this kernel released last, "" for none. Its Release came by another channel and may
            still be on its way: a rank that waits for it ends the collectives of that run before the cell begins.
    """

    type: ClassVar[str] = "run_cell"
    run: str
    code: str
    ranks: tuple[Int64, ...]
    horovod: bool
    log_dir: str | None
    options: CellOptions = CellOptions()  # noqa: RUF009  frozen
    horovod_rests: bool = False
    released: str = ""

    def is_on_subset(self, world_size: int) -> bool:
        """Return whether some ranks of the world do not run the cell."""
        return len(self.ranks) < world_size


@dataclass(frozen=True)
class RunScript(Wire):
    """Run a script on the receiving rank. It comes in the rank's environment, as JSON.

    Attributes:
        run: the run's id.
        log_dir: the run's folder, where rank K keeps its events, as rank-K.events.jsonl; None where there is none.
        folder: the folder of the pipes to the terminal; None where a relay beside each rank holds them.
        n: the number of ranks.
        devices: the CUDA_VISIBLE_DEVICES entry of each local rank; empty where the ranks compute on the cores; None
            where each rank takes a GPU of its own host, if there is one.
        threads: TensorFlow's threads on each rank; None for its share of its host's cores.
        options: the script's.
        oversubscribe: several ranks may share a GPU of their host.
        memory: what each rank may hold, for its own advice and on several hosts the relay beside it; None for no limit.
        allotment: how a site gives the ranks of each host their GPUs; None where they take what they find.
    """

    type: ClassVar[str] = "run_script"
    run: str
    log_dir: str | None
    folder: str | None
    n: Int64
    devices: tuple[str, ...] | None
    threads: Int64 | None
    options: CellOptions
    oversubscribe: bool = False
    memory: MemoryLimit | None = None
    allotment: GpuAllotment | None = None


@dataclass(frozen=True)
class PrepareHorovod(Wire):
    """Initialise Horovod, because a rank needs it and initialising takes every rank.

    In turn it comes to the ranks that do not run the cell, and those that run it have RunCell.horovod. At once it comes
    to all ranks, which do it beside what they run: HorovodAsked was sent.

    Attributes:
        run: that needs it.
        on_subset: the run is on some of the ranks only.
    """

    type: ClassVar[str] = "prepare_horovod"
    run: str
    on_subset: bool = True


@dataclass(frozen=True)
class RestHorovod(Wire):
    """Shut Horovod down between cells: its background thread would keep a core busy.

    Attributes:
        run: that has ended, the last one of its kernel's.
        after: the run for which all ranks were asked at once to initialise it, which they do first; "" for none.
    """

    type: ClassVar[str] = "rest_horovod"
    run: str = ""
    after: str = ""


@dataclass(frozen=True)
class Describe(Wire):
    """Send RankReady (again), and RankWarm if it was sent, once this has arrived both in turn and at once."""

    type: ClassVar[str] = "describe"


@dataclass(frozen=True)
class Ping(Wire):
    """Send RankAlive."""

    type: ClassVar[str] = "ping"


@dataclass(frozen=True)
class Release(Wire):
    """End the run on this rank: shut Horovod down under a blocked collective, and interrupt Python code.

    Attributes:
        run: which; "" for any run there, also one of another kernel.
        reason: what the rank's own report says, e.g. "rank 1 raised".
    """

    type: ClassVar[str] = "release"
    run: str
    reason: str


@dataclass(frozen=True)
class ReleaseAsked(Wire):
    """Sent to the cluster's other kernels, with the Release that went to all ranks: they release their own runs too.

    Attributes:
        kernel: who sent it.
        reason: as of Release.
        at_s: when; a run that began later is not released.
    """

    type: ClassVar[str] = "release_asked"
    kernel: str
    reason: str
    at_s: float


@dataclass(frozen=True)
class HorovodAsked(Wire):
    """Sent by a rank to the kernels: its run has come to where it needs Horovod, which rests.

    Attributes:
        run: which.
        rank: that needs it.
    """

    type: ClassVar[str] = "horovod_asked"
    run: str
    rank: Int64


@dataclass(frozen=True)
class CellRaised(Wire):
    """Sent by a rank to the kernels when its cell has raised: RankFailed follows, when the traceback has been made.

    Attributes:
        run: which.
        rank: this one.
    """

    type: ClassVar[str] = "cell_raised"
    run: str
    rank: Int64


@dataclass(frozen=True)
class EndAsked(Wire):
    """Sent to a cluster's lease on another host, where no process of this one can signal it: it ends the ranks.

    Attributes:
        kernel: who sent it.
    """

    type: ClassVar[str] = "end_asked"
    kernel: str


@dataclass(frozen=True)
class LookAtStacks(Wire):
    """Send RankStacks: where the rank's threads are now.

    Attributes:
        look: identifies this request; the answer has it too.
    """

    type: ClassVar[str] = "look_at_stacks"
    look: str


@dataclass(frozen=True)
class ProfileRank(Wire):
    """Sample the stack of the rank's main thread, then send RankProfile; at once where it is sampled already.

    Attributes:
        look: identifies this request; the answer has it too.
        seconds: for how long.
        hz: how often a second.
    """

    type: ClassVar[str] = "profile_rank"
    look: str
    seconds: float
    hz: float


@dataclass(frozen=True)
class EndProfile(Wire):
    """End a profile early, and send what there is.

    Attributes:
        look: the ProfileRank's.
    """

    type: ClassVar[str] = "end_profile"
    look: str


@dataclass(frozen=True)
class ReportStall(Wire):
    """Send CollectiveStalled, with what is known on the rank. Of a script, the terminal reads what Horovod writes.

    Attributes:
        stalled: as Horovod wrote it to the rank's standard error.
    """

    type: ClassVar[str] = "report_stall"
    stalled: CollectiveStalled


@dataclass(frozen=True)
class LookUp(Wire):
    """Send LookedUp: what the rank's IPython knows of the code at the cursor.

    Attributes:
        look: identifies this request; the answer has it too.
        what: "complete" or "inspect".
        cursor: in characters of `code`.
        detail: of "inspect": 1 for the source too.
    """

    type: ClassVar[str] = "look_up"
    look: str
    what: str
    code: str
    cursor: Int64
    detail: Int64 = 0


@dataclass(frozen=True)
class DebugRank(Wire):
    """Send RankDebugged: what the rank's debugger answers.

    Attributes:
        look: identifies this request; the answer has it too.
        message: a request of the Debug Adapter Protocol (command, arguments, seq), one of those that Jupyter has beside
            it, or "events", which is answered when there are new ones.
    """

    type: ClassVar[str] = "debug_rank"
    look: str
    message: dict[str, Any]


@dataclass(frozen=True)
class DescribeHost(Wire):
    """Send HostDescribed: what the rank's host has."""

    type: ClassVar[str] = "describe_host"


Request = (
    RunCell
    | PrepareHorovod
    | RestHorovod
    | Describe
    | Ping
    | Release
    | LookAtStacks
    | ProfileRank
    | EndProfile
    | ReportStall
    | LookUp
    | DebugRank
    | DescribeHost
    | Move
    | RunTask
    | KeepArray
    | DropArrays
    | EndTasks
)
