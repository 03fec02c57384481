"""From ranks that a kill -9 ended to the first allreduce on new ones, against a fresh `start` of the same ranks.

Both sides end with the same cell and have a controller and two ranks to start. Ours begins when the kernel knows of the
loss, and has to end what is left of the old ranks as well; how long it takes to know is told beside (`also`), with no
side to compare to.
"""

from __future__ import annotations

import os
import signal
import time

import jupyter_ddl
from benchmarks.harness import Row, interleave, report
from benchmarks.start import FIRST_ALLREDUCE
from benchmarks.start import ours as fresh
from jupyter_ddl.errors import ClusterLost

_POLL_S = 0.005


def main() -> None:
    """Run the benchmark."""
    known: list[float] = []
    with jupyter_ddl.start(n=2, name=f"bench-rebuilt-{os.getpid()}") as session:

        def rebuilt() -> float:
            session.run(FIRST_ALLREDUCE)
            killed_s = time.perf_counter()
            os.kill(session.ranks[1].pid, signal.SIGKILL)
            while session.state is None:
                time.sleep(_POLL_S)
            began_s = time.perf_counter()
            known.append(began_s - killed_s)
            try:
                session.run(FIRST_ALLREDUCE)
            except ClusterLost as error:
                raise SystemExit(str(error)) from error
            return time.perf_counter() - began_s

        sides = interleave(rebuilt, fresh)
    report(
        "rebuild",
        [Row("n=2", *sides, "s")],
        aim=1.2,
        better="lower",
        also=[Row("kill -9 until it is known", tuple(known), (1.0,) * len(known), "s")],
    )


if __name__ == "__main__":
    main()
