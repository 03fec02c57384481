"""What it costs a rank to be profiled: the CPU time of the same work with the profiler on, against off.

The worst case for it: pure Python code, which shares Python's lock with the thread that samples, sixty calls deep, as
deep as a `fit`. CPU time of the whole process, that thread's included: a busy machine takes cores from both sides. It
needs no ranks, since the profiler is one thread of a rank's process.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from benchmarks.harness import PAIRS, Row, interleave, report
from jupyter_ddl.cluster.rank_profiles import HZ
from jupyter_ddl.engine.profiler import Profiler
from jupyter_ddl.protocol.requests import ProfileRank

if TYPE_CHECKING:
    from jupyter_ddl.engine.world import World

DEPTH = 60
TURNS = 150
LONG_S = 60.0
ENDED_S = 10.0


def main() -> None:
    """Run the benchmark."""
    rows = []
    for hz in (HZ, 4 * HZ):
        on, off = interleave(partial(cpu_s, hz), partial(cpu_s, None), PAIRS)
        rows.append(Row(f"{hz:g} samples a second, none", on, off, "s"))
    report("profile_cost", rows, aim=1.03, better="lower")


def cpu_s(hz: float | None) -> float:
    """Return the CPU time of the work, while this thread is sampled so often; None for not at all."""
    ended = threading.Event()
    world = cast("World", SimpleNamespace(rank=0, host="here"))
    profiler = Profiler(world, lambda _: ended.set())
    if hz is not None:
        profiler.begin(ProfileRank("bench", LONG_S, hz))
    began_s = time.process_time()
    deep(DEPTH)
    taken_s = time.process_time() - began_s
    if hz is not None:
        profiler.end("the work is done", "bench")
        ended.wait(ENDED_S)
    return taken_s


def deep(depth: int) -> None:
    """Compute that many calls deep."""
    if depth:
        deep(depth - 1)
        return
    for _ in range(TURNS):
        total = 0
        for number in range(200_000):
            total += number * number


if __name__ == "__main__":
    main()
