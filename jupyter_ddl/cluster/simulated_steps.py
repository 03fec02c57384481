"""Defines the steps of a simulated rank's program.

| step | the rank |
|---|---|
| `Print` | writes to one of its standard streams |
| `Compute` | is busy in Python code, which a release interrupts |
| `Collective` | waits until all ranks of the run have entered it; its release, or another rank's exception, ends it |
| `Stuck` | is in C code, or frozen: it answers nothing, a release included, before its time has passed |
| `Tidy` | takes some time to end when it is interrupted from now on |
| `Raise` | ends with an exception, and with it the collectives of the others |
| `Die` | its process ends, and with it all ranks |

A rank whose program ends has finished. A program is for any cell, or by the cell's code; of other cells the rank then
does nothing.
"""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.protocol.events import Stream


@dataclass(frozen=True)
class Print:
    """Write to a standard stream."""

    text: str
    stream: Stream = "stdout"


@dataclass(frozen=True)
class Compute:
    """Be busy in Python code."""

    seconds: float = math.inf


@dataclass(frozen=True)
class Collective:
    """Enter a collective of all ranks of the run, and wait for the others."""

    tensor: str = "gradients"


@dataclass(frozen=True)
class Stuck(Compute):
    """Be in C code that nothing interrupts. A release that came meanwhile is answered afterwards."""


@dataclass(frozen=True)
class Tidy:
    """Take some seconds to end, when interrupted from now on."""

    seconds: float


@dataclass(frozen=True)
class Raise:
    """End with an exception, which is reported after some seconds."""

    name: str = "ValueError"
    message: str = "no such thing"
    report_s: float = 0.0


@dataclass(frozen=True)
class Die:
    """End the process by a signal."""

    signum: int = signal.SIGKILL


Step = Print | Compute | Collective | Stuck | Tidy | Raise | Die
Program: TypeAlias = "Sequence[Step] | Mapping[str, Sequence[Step]]"
