"""Defines what moves values between a session, a rank's namespace and files, and the rank's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jupyter_ddl.protocol.codec import Int64, Wire


@dataclass(frozen=True)
class PushValues(Wire):
    """Set variables to the values in the message's buffers; answer with ValuesMoved, on the same socket.

    Attributes:
        move: identifies this request; the answer has it too, and a Release of it interrupts the rank.
        names: the variables.
        frames: how many of the message's buffers each value takes, in the order of `names`.
    """

    type: ClassVar[str] = "push_values"
    move: str
    names: tuple[str, ...]
    frames: tuple[Int64, ...]


@dataclass(frozen=True)
class PullValue(Wire):
    """Answer with ValuesMoved, on the same socket, and a variable's value in the message's buffers.

    Attributes:
        move: as of PushValues.
        name: the variable, or an expression of variables.
    """

    type: ClassVar[str] = "pull_value"
    move: str
    name: str


@dataclass(frozen=True)
class SaveVariables(Wire):
    """Write what cells have defined into a folder; answer with ValuesMoved, on the same socket, and what was kept.

    Attributes:
        move: as of PushValues.
        folder: on the rank's host.
    """

    type: ClassVar[str] = "save_variables"
    move: str
    folder: str


@dataclass(frozen=True)
class StageVariables(Wire):
    """Load what SaveVariables wrote, without using it; answer with ValuesMoved, on the same socket, and what raised.

    Attributes:
        move: as of PushValues.
        folder: on the rank's host.
        left_out: variables that not all ranks have which had them.
    """

    type: ClassVar[str] = "stage_variables"
    move: str
    folder: str
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class UseVariables(Wire):
    """Set the variables that were staged, or forget them; answer with ValuesMoved, on the same socket.

    Attributes:
        move: as of PushValues.
        is_wanted: set them: all ranks could load theirs.
    """

    type: ClassVar[str] = "use_variables"
    move: str
    is_wanted: bool


@dataclass(frozen=True)
class ValuesMoved(Wire):
    """A rank's answer to a request that moves values.

    Attributes:
        move: which.
        rank: whose answer.
        error: what pickling or unpickling raised there, as `NAME: text`; None where nothing did.
        released: the reason of the Release that interrupted it; None where none did.
    """

    type: ClassVar[str] = "values_moved"
    move: str
    rank: Int64
    error: str | None = None
    released: str | None = None


Move = PushValues | PullValue | SaveVariables | StageVariables | UseVariables
"""Each is answered with ValuesMoved."""
