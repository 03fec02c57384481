"""What kernels, the hub and browsers say to each other, and the check of what comes from outside.

A message is one line of JSON on the unix socket between kernel and hub, and one text frame on the WebSocket between hub
and browser. A run's events are no messages: the hub reads them from the run's folder, and sends them as
`views.event_batches.batch` writes them, in binary frames.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, get_args, get_origin, get_type_hints

from jupyter_ddl.protocol.codec import Wire
from jupyter_ddl.protocol.events import Outcome  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable


class RankState(TypedDict):
    """One rank, as a panel shows it.

    `silent` is one from which nothing has come for some seconds, `lost` one whose process died, `ended` one that ended
    with it.
    """

    rank: int
    local_rank: int
    host: str
    pid: int
    device: str
    threads: int
    state: Literal["ready", "running", "lost", "ended", "silent"]


class ClusterState(TypedDict):
    """The ranks of a kernel; `step` is what their start or replacement is at, `note` which defaults were taken."""

    name: str
    state: Literal["starting", "idle", "running", "rebuilding", "lost", "stopped"]
    note: str
    step: str | None
    world_size: int
    ranks: list[RankState]


@dataclass(frozen=True)
class KernelState(Wire):
    """What a kernel has: told when it changes, and to whoever connects.

    Attributes:
        kernel: Jupyter's id of the kernel.
        cluster: its ranks; None where it has none.
        run: the newest run that goes on; None where none does.
        fault: the last fault's sentence, or the stall of a cell that runs; None again once the next cell begins, after
            a good one, or with new ranks.
    """

    type: ClassVar[str] = "kernel_state"
    kernel: str
    pid: int
    cluster: ClusterState | None = None
    run: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class KernelGone(Wire):
    """A kernel is there no more, or has let go of the hub."""

    type: ClassVar[str] = "kernel_gone"
    kernel: str


@dataclass(frozen=True)
class RunNotice(Wire):
    """A run has begun, or has ended.

    Attributes:
        state: "running", or its outcome.
        cell_id: JupyterLab's id of the cell that was executed; None where that is not known.
        ranks: which, as people write them: "0,2-3".
        seconds: what it took; None while it goes on.
        fault: what went wrong, as a sentence; None where nothing did.
    """

    type: ClassVar[str] = "run_notice"
    kernel: str
    run: str
    state: Literal["running"] | Outcome
    cell_id: str | None = None
    ranks: str = ""
    seconds: float | None = None
    fault: str | None = None


@dataclass(frozen=True)
class Control(Wire):
    """Ask a kernel for something at once, whatever its main thread does. It is answered by an Answer of the same id.

    Attributes:
        do: "interrupt", "stop", "restart", "stacks", "complete" or "inspect".
        arguments: of "stacks": ranks; of "complete": code, cursor; of "inspect": code, cursor, detail.
    """

    type: ClassVar[str] = "control"
    id: str
    kernel: str
    do: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Answer(Wire):
    """What a Control came to.

    Attributes:
        result: what was asked for; None for a deed.
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
    next: int = 0


@dataclass(frozen=True)
class Taken(Wire):
    """The browser has drawn a run's events before the one with number `next`: more may come."""

    type: ClassVar[str] = "taken"
    run: str
    next: int


@dataclass(frozen=True)
class Unwatch(Wire):
    """Send no more of a run."""

    type: ClassVar[str] = "unwatch"
    run: str


HubMessage = KernelState | KernelGone | RunNotice | Control | Answer | Watch | Taken | Unwatch


def from_kernel(data: bytes | str) -> KernelState | RunNotice | Answer:
    """Return the message that a kernel sent, which may send anything.

    Raises:
        ValueError: it is no message of a kernel's, or a field is missing or not what its class says.
    """
    message: KernelState | RunNotice | Answer = _parse(data, (KernelState, RunNotice, Answer))
    return message


def from_browser(data: bytes | str) -> Control | Watch | Taken | Unwatch:
    """Return the message that a browser sent, which may send anything.

    Raises:
        ValueError: it is no message of a browser's, or a field is missing or not what its class says.
    """
    message: Control | Watch | Taken | Unwatch = _parse(data, (Control, Watch, Taken, Unwatch))
    return message


def from_hub(data: bytes | str) -> Control:
    """Return the control that the hub sent.

    Raises:
        ValueError: it is none.
    """
    message: Control = _parse(data, (Control,))
    return message


def _parse(data: bytes | str, kinds: Iterable[Any]) -> Any:
    known = {kind.type: kind for kind in kinds}
    try:
        content = parse_json(data)
    except ValueError as error:
        raise ValueError(f"A message must be JSON. Received: {data[:60]!r}.") from error
    kind = known.get(str(content.get("type"))) if isinstance(content, dict) else None
    if kind is None:
        received = repr(content.get("type")) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"A message's type must be one of {sorted(known)}. Received: {received[:60]}.")
    values = {}
    for name, (hint, is_required) in _hints(kind).items():
        if name not in content and is_required:
            raise ValueError(f"A {kind.type} message must have {name}. Received: {sorted(content)[:20]}.")
        if name in content:
            if not _is_of(content[name], hint):
                raise ValueError(f"{name} of a {kind.type} message must be {_name(hint)}. Received: another type.")
            values[name] = content[name]
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return each field's type, and whether it must be there."""
    hints = get_type_hints(kind)
    return {field.name: (hints[field.name], field.default is MISSING) for field in fields(kind)}


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a JSON value is of a type. What a kernel says of its ranks is not looked into."""
    if hint is Any:
        return True
    arguments, origin = get_args(hint), get_origin(hint)
    if origin is Literal:
        return value in arguments
    if origin is dict or hint in (ClusterState, RankState):
        return isinstance(value, dict)
    if arguments:
        return any(_is_of(value, argument) for argument in arguments)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint)


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
