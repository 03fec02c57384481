"""How soon ranks are back where others stand by: from a kill, a restart, and a stop, until the next cell has run.

The cell is an allreduce of TensorFlow's on two ranks. Each figure is compared with the aim of 2 s; beside it (`also`)
stands the same kill where none stand by. Before each figure it is waited until ranks stand by.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import Row, report
from benchmarks.start import FIRST_ALLREDUCE
from jupyter_ddl.kernel.current import sessions
from jupyter_ddl.protocol.standby import AUTO, NEVER

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

_POLL_S = 0.005
_MADE_S = 300.0
TURNS = 5
AIM_S = 2.0


def main() -> None:
    """Run the benchmark."""
    seconds: dict[str, list[float]] = {"kill -9": [], "restart": [], "stop and start": []}
    session = start(AUTO)
    for _ in range(TURNS):
        session.run(FIRST_ALLREDUCE)
        wait_for_standby()
        seconds["kill -9"].append(killed(session))
        wait_for_standby()
        began_s = time.perf_counter()
        session.restart()
        seconds["restart"].append(until_a_cell_has_run(session, began_s))
        wait_for_standby()
        session.stop()
        began_s = time.perf_counter()
        session = start(AUTO)
        seconds["stop and start"].append(until_a_cell_has_run(session, began_s))
    session.stop()
    sessions().standby.end()
    with start(NEVER) as alone:
        alone.run(FIRST_ALLREDUCE)
        without = [killed(alone) for _ in range(TURNS)]
    rows = [Row(f"{what}, {AIM_S:g} s", tuple(each), (AIM_S,) * TURNS, "s") for what, each in seconds.items()]
    also = [Row(f"kill -9, none stand by, {AIM_S:g} s", tuple(without), (AIM_S,) * TURNS, "s")]
    report("standby", rows, aim=1.0, better="lower", also=also)


def start(standby: str) -> Session:
    """Start two ranks."""
    return jupyter_ddl.start(n=2, name=f"bench-standby-{os.getpid()}", standby=standby)


def wait_for_standby() -> None:
    """Wait until ranks stand by."""
    ends_s = time.monotonic() + _MADE_S
    while sessions().standby.pid is None:
        if time.monotonic() > ends_s:
            raise SystemExit(f"No ranks stand by after {_MADE_S:g} s: is there memory, and an idle core?")
        time.sleep(_POLL_S)


def killed(session: Session) -> float:
    """Kill a rank; return the seconds until the next cell has run."""
    began_s = time.perf_counter()
    os.kill(session.ranks[1].pid, signal.SIGKILL)
    while session.state is None:
        time.sleep(_POLL_S)
    return until_a_cell_has_run(session, began_s)


def until_a_cell_has_run(session: Session, began_s: float) -> float:
    """Run the cell; return the seconds since `began_s`."""
    session.run(FIRST_ALLREDUCE)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
