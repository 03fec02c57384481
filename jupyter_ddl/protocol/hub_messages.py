"""Defines the messages between kernels, the hub and browsers, and checks what comes from outside.

A message is one line of JSON on the unix socket between kernel and hub, and one text frame on the WebSocket between hub
and browser. A run's events are no messages: the hub reads them from the run's folder, and sends them as
`views.event_batches.batch` writes them, in binary frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypedDict

from jupyter_ddl.protocol.codec import Int64, Wire, decode
from jupyter_ddl.protocol.events import Outcome  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.faults import Fault  # noqa: TC001  get_type_hints reads it


class RankState(TypedDict):
    """One rank, as a panel shows it.

    `silent` is one from which nothing has come for some seconds, `held` one that the debugger holds, `lost` one whose
    process died, `ended` one that ended with it.
    """

    rank: Int64
    local_rank: Int64
    host: str
    pid: Int64
    device: str
    threads: Int64
    state: Literal["ready", "running", "lost", "ended", "silent", "held"]


class ClusterState(TypedDict):
    """The ranks of a kernel; `step` is the step of their start or replacement, `note` the defaults that were used.

    `ends_at_s` is when the batch job that they are in is over, in seconds since the epoch; None without one.
    `idle_ends_at_s` is when they are ended as idle; None while they are used, and where they are never.
    `keeps_variables` says that what cells defined is saved before that, and loaded by a restart.
    `job` names the batch job that brings them, e.g. "Slurm job 12", which a stop ends wherever it is; None without one.
    `held` says which ranks are held in the debugger, and where; None where none is.
    """

    name: str
    state: Literal["starting", "idle", "running", "rebuilding", "lost", "stopped"]
    note: str
    step: str | None
    world_size: Int64
    ranks: list[RankState]
    ends_at_s: float | None
    idle_ends_at_s: float | None
    keeps_variables: bool
    job: str | None
    held: str | None


@dataclass(frozen=True)
class KernelState(Wire):
    """A kernel's state: sent when it changes, and to each new connection.

    Attributes:
        kernel: Jupyter's id of the kernel.
        cluster: its ranks; None where it has none.
        run: the newest active run; None where there is none.
        fault: the last fault, as `views.fault.in_short` has it, or the stall of a cell that runs; None again once the
            next cell begins, after a good one, or with new ranks.
        whole_notebook: whether its cells without a magic run on the ranks (`%ddl auto on`).
    """

    type: ClassVar[str] = "kernel_state"
    kernel: str
    pid: Int64
    cluster: ClusterState | None = None
    run: str | None = None
    fault: Fault | None = None
    whole_notebook: bool = False


@dataclass(frozen=True)
class KernelGone(Wire):
    """A kernel has ended, or has disconnected from the hub."""

    type: ClassVar[str] = "kernel_gone"
    kernel: str


@dataclass(frozen=True)
class RunNotice(Wire):
    """A run has begun, or has ended.

    Attributes:
        kernel: Jupyter's id of the kernel; of a script's run the script's name.
        state: "running", or its outcome.
        cell_id: JupyterLab's id of the cell that was executed; None where that is not known.
        ranks: which, as text: "0,2-3".
        seconds: how long it took; None while it runs.
        fault: what went wrong, as `views.fault.in_short` has it; None where nothing did, or its user ended it.
    """

    type: ClassVar[str] = "run_notice"
    kernel: str
    run: str
    state: Literal["running"] | Outcome
    cell_id: str | None = None
    ranks: str = ""
    seconds: float | None = None
    fault: Fault | None = None


@dataclass(frozen=True)
class RunLabelled(Wire):
    """The name, the note or the tags of a run were changed."""

    type: ClassVar[str] = "run_labelled"
    run: str


@dataclass(frozen=True)
class Control(Wire):
    """Ask a kernel for something at once, whatever its main thread does. It is answered by an Answer of the same id.

    Attributes:
        do: "interrupt", "stop", "restart", "keep", "stacks", "profile", "complete", "inspect" or "debug".
        arguments: of "stacks": ranks; of "profile": ranks, seconds; of "complete": code, cursor; of "inspect": code,
            cursor, detail; of "debug": rank, message.
    """

    type: ClassVar[str] = "control"
    id: str
    kernel: str
    do: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class BoardAsked(Wire):
    """Ask the hub, on a connection of its own, to show a folder of logs, or a run, in TensorBoard.

    It is answered by an Answer whose result is the address, from the server's root on.

    Attributes:
        folder: an absolute path; None where a run is asked for.
        run: its id; None where a folder is asked for.
    """

    type: ClassVar[str] = "board_asked"
    folder: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class Answer(Wire):
    """The answer to a Control, or to a BoardAsked.

    Attributes:
        result: what was asked for; None for an action.
        error: why it was not done, as a sentence; None where it was.
    """

    type: ClassVar[str] = "answer"
    id: str
    result: Any = None
    error: str | None = None


@dataclass(frozen=True)
class Watch(Wire):
    """Send a run's events, from the one with number `next` on, until Unwatch."""

    type: ClassVar[str] = "watch"
    run: str
    next: Int64 = 0


@dataclass(frozen=True)
class Taken(Wire):
    """The browser has rendered a run's events before the one with number `next`: more may come."""

    type: ClassVar[str] = "taken"
    run: str
    next: Int64


@dataclass(frozen=True)
class Unwatch(Wire):
    """Stop sending a run's events."""

    type: ClassVar[str] = "unwatch"
    run: str


ToBrowser = KernelState | KernelGone | RunNotice | RunLabelled | Answer
FromBrowser = Control | Watch | Taken | Unwatch
FromKernel = KernelState | RunNotice | Answer | BoardAsked
HubMessage = ToBrowser | FromBrowser | BoardAsked


def from_kernel(data: bytes | str) -> FromKernel:
    """Return the message in what a kernel sent, which may be anything.

    Raises:
        ValueError: it is no message of a kernel's, or a field is missing or not what its class says.
    """
    message: FromKernel = decode(data, FromKernel)
    return message


def from_browser(data: bytes | str) -> FromBrowser:
    """Return the message in what a browser sent, which may be anything.

    Raises:
        ValueError: it is no message of a browser's, or a field is missing or not what its class says.
    """
    message: FromBrowser = decode(data, FromBrowser)
    return message


def answer_from_hub(data: bytes | str) -> Answer:
    """Return the answer that the hub sent.

    Raises:
        ValueError: it is none.
    """
    message: Answer = decode(data, Answer)
    return message


def from_hub(data: bytes | str) -> Control:
    """Return the control that the hub sent.

    Raises:
        ValueError: it is none.
    """
    message: Control = decode(data, Control)
    return message
