"""Defines the events: what happened on the ranks, and to a run.

An **event** travels from a rank (or the session) to its readers: the cell's output, the run's folder, a dashboard.
Here stands what happens in a run; `rank_life` has what becomes of a rank, whatever it runs, and `rank_answers` the
answers to requests.

Order: a rank's events of a run are numbered from 1 (`n`) and arrive in that order; between ranks there is none but
`at_s`. The session's own events of a run have the number 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from jupyter_ddl.protocol.codec import Int64, Wire
from jupyter_ddl.protocol.faults import Fault  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.rank_answers import HostDescribed, LookedUp, RankDebugged, RankProfile, RankStacks
from jupyter_ddl.protocol.rank_life import RankAlive, RankLost, RankReady, RankSilent, RankWarm
from jupyter_ddl.protocol.readings import GpuReading, HostReading, TrainingReading

Stream = Literal["stdout", "stderr"]
Outcome = Literal["finished", "failed", "interrupted", "timed out", "stalled", "lost"]
# The `name` of a failure that is no exception of the user's: a collective of all ranks, in a cell on some of them.
COLLECTIVE_ON_SUBSET = "CollectiveOnSubset"


@dataclass(frozen=True)
class RunStarted(Wire):
    """The session sent a cell to its ranks."""

    type: ClassVar[str] = "run_started"
    run: str
    ranks: tuple[Int64, ...]
    world_size: Int64
    at_s: float


@dataclass(frozen=True)
class OutputChunk(Wire):
    """What a rank wrote to one of its standard streams.

    Attributes:
        text: as written, control characters included; never HTML. Chunks are cut anywhere, also inside a line.
        skipped_bytes: how much of the rank's log before `text` was left out here, because the rank wrote faster than
            a reader reads.
        at_s: when it was sent, seconds since the epoch on the rank's host.
        end_bytes: the length of the rank's log by then.
    """

    type: ClassVar[str] = "output"
    run: str
    rank: Int64
    stream: Stream
    text: str
    skipped_bytes: Int64 = 0
    at_s: float = 0.0
    end_bytes: Int64 = 0
    n: Int64 = 0


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
    rank: Int64
    kind: Literal["display", "update", "result"]
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str | None = None
    n: Int64 = 0


@dataclass(frozen=True)
class OutputCleared(Wire):
    """The rank's code called `clear_output`; with `wait`, the clearing waits for the next output."""

    type: ClassVar[str] = "output_cleared"
    run: str
    rank: Int64
    wait: bool
    n: Int64 = 0


@dataclass(frozen=True)
class MetricsSample(HostReading, GpuReading, TrainingReading, Wire):
    """A rank's training and resources, once a second or as often as was requested.

    What is None was not measured: no training ran, or the machine does not report it.

    Attributes:
        at_s: seconds since the epoch on the rank's host.
        cpu_pct: of one core, by the rank's process; 200 is two cores.
        rss_bytes: the process's resident memory.
    """

    type: ClassVar[str] = "metrics"
    run: str
    rank: Int64
    at_s: float
    cpu_pct: float
    rss_bytes: Int64
    n: Int64 = 0


@dataclass(frozen=True)
class EpochEnded(Wire):
    """What an epoch of a `fit` came to: of ranks that train together the first one reports it.

    Epochs shorter than a tenth of a second are not all reported; the last one of a `fit` is.

    Attributes:
        at_s: when it ended, seconds since the epoch on the rank's host.
        epoch: from 0, in its `fit`.
        step: training steps of the run by then, as a `TrainingReading` counts them.
        metrics: name -> value, as Keras logs them at the epoch's end, over all ranks where they are averaged: the loss,
            and validation's, whose names begin with "val_".
        is_last: its `fit` has ended with it, at the last epoch or earlier.
    """

    type: ClassVar[str] = "epoch_ended"
    run: str
    rank: Int64
    at_s: float
    epoch: Int64
    step: Int64
    metrics: dict[str, float]
    is_last: bool = False
    n: Int64 = 0


@dataclass(frozen=True)
class ParametersLogged(Wire):
    """What `fit` was given on a rank, or what its code logged with `jupyter_ddl.log_params`.

    Attributes:
        parameters: name -> JSON scalar; only those that are new, or have another value than before.
    """

    type: ClassVar[str] = "parameters"
    run: str
    rank: Int64
    parameters: dict[str, Any]
    n: Int64 = 0


@dataclass(frozen=True)
class StragglerMarked(Wire):
    """A rank's own steps (without the exchange) became slower than the others', or no longer are.

    Attributes:
        is_straggler: whether it is one from now on.
        ratio: its own time for a step over the median of the ranks'.
        spends_on: what takes it longer than the others.
    """

    type: ClassVar[str] = "straggler"
    run: str
    rank: Int64
    at_s: float
    is_straggler: bool
    ratio: float
    spends_on: Literal["compute", "input"]


@dataclass(frozen=True)
class RankFinished(Wire):
    """A rank ran the cell to its end.

    Attributes:
        uses_horovod: the cell, or an earlier one, has called `hvd.init()` itself.
        horovod_runs: Horovod is initialised now, and must be shut down.
        entered: how many collectives of all ranks it has entered; None where its library does not count them.
    """

    type: ClassVar[str] = "rank_finished"
    run: str
    rank: Int64
    at_s: float
    uses_horovod: bool = False
    horovod_runs: bool = False
    entered: Int64 | None = None
    n: Int64 = 0


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
        reason: why it was released, as its Release says; None where none came.
        given: what the rank passed to a collective that was refused because the ranks passed different things.
        entered: as in RankFinished.
    """

    type: ClassVar[str] = "rank_failed"
    run: str
    rank: Int64
    host: str
    name: str
    message: str
    traceback: tuple[str, ...]
    released: bool
    at_s: float
    uses_horovod: bool = False
    reason: str | None = None
    given: str | None = None
    entered: Int64 | None = None
    n: Int64 = 0


@dataclass(frozen=True)
class CollectiveStalled(Wire):
    """Horovod reported, on the rank that coordinates a collective, that other ranks do not enter it.

    Attributes:
        waited_s: for how long at least.
        tensors: the names by which Horovod knows the collectives, at most six of a rank.
        missing: rank -> those of them that it has not entered; empty where the ranks are not known.
    """

    type: ClassVar[str] = "collective_stalled"
    run: str
    rank: Int64
    at_s: float
    waited_s: float
    tensors: tuple[str, ...]
    missing: dict[str, Any]
    n: Int64 = 0


@dataclass(frozen=True)
class StallReported(Wire):
    """The session found where the ranks of a stalled run are.

    Attributes:
        ranks: those of the run.
        fault: who waits for whom, and where each is.
    """

    type: ClassVar[str] = "stall_reported"
    run: str
    ranks: tuple[Int64, ...]
    at_s: float
    fault: Fault


@dataclass(frozen=True)
class RankHeld(Wire):
    """A rank is held in the debugger, or runs again: then `file` is empty.

    Attributes:
        file: the file of the code, as Python knows it.
        line: the line that comes next.
        function: where it is in.
    """

    type: ClassVar[str] = "rank_held"
    run: str
    rank: Int64
    at_s: float
    file: str = ""
    line: Int64 = 0
    function: str = ""
    n: Int64 = 0


@dataclass(frozen=True)
class RunFinished(Wire):
    """Every rank of the run has finished, failed or ended.

    Attributes:
        fault: why it did not finish well; None where it did.
    """

    type: ClassVar[str] = "run_finished"
    run: str
    outcome: Outcome
    seconds: float
    fault: Fault | None = None


Event = (
    RankReady
    | RankWarm
    | RunStarted
    | OutputChunk
    | RichOutput
    | OutputCleared
    | MetricsSample
    | EpochEnded
    | ParametersLogged
    | StragglerMarked
    | RankFinished
    | RankFailed
    | RankLost
    | RankAlive
    | RankSilent
    | CollectiveStalled
    | StallReported
    | RankStacks
    | RankProfile
    | LookedUp
    | RankDebugged
    | RankHeld
    | HostDescribed
    | RunFinished
)
