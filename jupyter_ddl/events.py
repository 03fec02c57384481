"""Everything that crosses a process border: what happened on the ranks, and what is asked of them.

An **event** travels from a rank (or the session) to whoever looks: the cell's output, the run's folder, a dashboard.
A **request** travels from the session to a rank. Both are frozen dataclasses of JSON values with one codec:
`encode` gives a dict with a `type`, `decode` gives the dataclass back.

Order: a rank's events arrive in the order in which it sent them; between ranks there is none but `at_s`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar

from jupyter_ddl.auto_options import AutoOptions

Stream = Literal["stdout", "stderr"]
Outcome = Literal["finished", "failed", "interrupted", "timed out", "lost"]
# The `name` of a failure that is no exception of the user's: a collective of all ranks, in a cell on some of them.
COLLECTIVE_ON_SUBSET = "CollectiveOnSubset"
Message = TypeVar("Message", bound="Wire")


class Wire:
    """Base of what crosses a process border; `type` names the class on the wire."""

    type: ClassVar[str]


# --- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankReady(Wire):
    """A rank can run cells.

    Attributes:
        device: what the rank computes on, e.g. "GPU 2 (NVIDIA H200)" or "CPU".
        threads: TensorFlow's intra-op threads on this rank.
        uses_horovod: a cell has called `hvd.init()`, as a kernel that attaches must know.
    """

    type: ClassVar[str] = "rank_ready"
    rank: int
    world_size: int
    local_rank: int
    host: str
    pid: int
    device: str
    threads: int
    uses_horovod: bool = False


@dataclass(frozen=True)
class RankWarm(Wire):
    """TensorFlow and Horovod are imported on a rank, or why they are not.

    Attributes:
        versions: name -> version of what was imported.
        seconds: since the rank's process began.
        problem: why Horovod cannot be used on this rank; None when it can.
    """

    type: ClassVar[str] = "rank_warm"
    rank: int
    versions: dict[str, str]
    seconds: float
    problem: str | None = None


@dataclass(frozen=True)
class RunStarted(Wire):
    """The session sent a cell to its ranks."""

    type: ClassVar[str] = "run_started"
    run: str
    ranks: tuple[int, ...]
    world_size: int
    at_s: float


@dataclass(frozen=True)
class OutputChunk(Wire):
    """What a rank wrote to one of its standard streams.

    Attributes:
        text: as written, control characters included; never HTML. Chunks are cut anywhere, also inside a line.
        skipped_bytes: how much stands before `text` in the rank's log but was left out here, because the rank wrote
            faster than anybody reads.
    """

    type: ClassVar[str] = "output"
    run: str
    rank: int
    stream: Stream
    text: str
    skipped_bytes: int = 0


@dataclass(frozen=True)
class RichOutput(Wire):
    """A figure, a table, or the value of the cell's last expression.

    Attributes:
        kind: "display", "update" (of an earlier display of the same `display_id`), or "result" (the last value).
        data: MIME type -> JSON value, as in Jupyter's display_data message.
        metadata: as in the same message.
    """

    type: ClassVar[str] = "rich_output"
    run: str
    rank: int
    kind: Literal["display", "update", "result"]
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str | None = None


@dataclass(frozen=True)
class OutputCleared(Wire):
    """The rank's code called `clear_output`; with `wait`, the clearing waits for the next output."""

    type: ClassVar[str] = "output_cleared"
    run: str
    rank: int
    wait: bool


@dataclass(frozen=True)
class RankFinished(Wire):
    """A rank ran the cell to its end.

    Attributes:
        uses_horovod: the cell, or an earlier one, has called `hvd.init()` itself.
        horovod_runs: it is initialised now, and must be put to rest.
    """

    type: ClassVar[str] = "rank_finished"
    run: str
    rank: int
    at_s: float
    uses_horovod: bool = False
    horovod_runs: bool = False


@dataclass(frozen=True)
class RankFailed(Wire):
    """The cell raised on a rank.

    Attributes:
        name: the exception's class, e.g. "ValueError".
        message: its text.
        traceback: lines with ANSI colours, as IPython shows them.
        released: the exception came from the rank's release (another rank raised, or the user interrupted), so it is
            an effect and not a cause.
        at_s: when it was raised, seconds since the epoch on the rank's host.
    """

    type: ClassVar[str] = "rank_failed"
    run: str
    rank: int
    host: str
    name: str
    message: str
    traceback: tuple[str, ...]
    released: bool
    at_s: float
    uses_horovod: bool = False


@dataclass(frozen=True)
class RankLost(Wire):
    """A rank's process ended, or the whole MPI job did (then `rank` is None)."""

    type: ClassVar[str] = "rank_lost"
    rank: int | None
    cause: str
    at_s: float


@dataclass(frozen=True)
class RunFinished(Wire):
    """Every rank of the run has finished, failed or gone."""

    type: ClassVar[str] = "run_finished"
    run: str
    outcome: Outcome
    seconds: float


Event = (
    RankReady
    | RankWarm
    | RunStarted
    | OutputChunk
    | RichOutput
    | OutputCleared
    | RankFinished
    | RankFailed
    | RankLost
    | RunFinished
)


# --- requests ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCell(Wire):
    """Run a cell on the receiving rank, in its IPython namespace.

    Attributes:
        code: the cell's source, magics and all.
        ranks: every rank that runs it.
        horovod: initialise Horovod before the cell begins. Collective: all ranks of the world are asked, those outside
            `ranks` by PrepareHorovod.
        log_dir: the folder where rank K writes all that it prints meanwhile, as rank-K.log, on its host.
        independent: each rank means to train a model of its own.
        auto: how to distribute a program that was written for one process; None for one that says so itself.
    """

    type: ClassVar[str] = "run_cell"
    run: str
    code: str
    ranks: tuple[int, ...]
    horovod: bool
    log_dir: str | None
    independent: bool = False
    auto: AutoOptions | None = None

    def __post_init__(self) -> None:
        """Make the options that came as JSON what they are."""
        auto: Any = self.auto
        if isinstance(auto, dict):
            object.__setattr__(self, "auto", AutoOptions(**auto))


@dataclass(frozen=True)
class PrepareHorovod(Wire):
    """Initialise Horovod on a rank that does not run the cell, because initialising needs every rank."""

    type: ClassVar[str] = "prepare_horovod"
    run: str


@dataclass(frozen=True)
class RestHorovod(Wire):
    """Shut Horovod down between cells: its background thread would keep a core busy."""

    type: ClassVar[str] = "rest_horovod"


@dataclass(frozen=True)
class Describe(Wire):
    """Send RankReady (again), and RankWarm when that has happened."""

    type: ClassVar[str] = "describe"


@dataclass(frozen=True)
class Release(Wire):
    """End the run on this rank: shut Horovod down under a blocked collective, and interrupt Python code.

    Attributes:
        reason: what the rank's own report says, e.g. "rank 1 raised".
    """

    type: ClassVar[str] = "release"
    run: str
    reason: str


Request = RunCell | PrepareHorovod | RestHorovod | Describe | Release

_WIRE_TYPES: dict[str, type[Any]] = {
    wire.type: wire
    for wire in (
        RankReady,
        RankWarm,
        RunStarted,
        OutputChunk,
        RichOutput,
        OutputCleared,
        RankFinished,
        RankFailed,
        RankLost,
        RunFinished,
        RunCell,
        PrepareHorovod,
        RestHorovod,
        Describe,
        Release,
    )
}


def encode(message: Event | Request) -> dict[str, Any]:
    """Return the JSON form: the dataclass's fields, and `type`."""
    return {"type": message.type, **asdict(message)}


def decode(content: dict[str, Any]) -> Any:
    """Return the dataclass of a JSON form.

    Fields that this version does not know are left out, so that a newer rank can be read.

    Raises:
        ValueError: `type` is missing or unknown, or a field is missing.
    """
    wire = _WIRE_TYPES.get(content.get("type", ""))
    if wire is None:
        raise ValueError(f"A message's type must be one of {sorted(_WIRE_TYPES)}. Received: {content.get('type')!r}.")
    known = {f.name for f in fields(wire)}
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items() if name in known
    }
    try:
        return wire(**values)
    except TypeError as error:
        raise ValueError(f"A {wire.type} message must have all its fields. Received: {sorted(values)}.") from error
