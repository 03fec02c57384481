"""What it gains that gloo's threads are batch threads where ranks have their cores for themselves: images/s, a ratio.

Both sides run in turns on the same two ranks of PyTorch, and of JAX: small models, whose exchange counts most, and a
large one. `--crowded` has a program compute on each core meanwhile, and leaves the choice to the ranks.

python -m benchmarks.gloo_threads [--crowded]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import PAIRS, Row, interleave, report
from benchmarks.timeline import LOOPS

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

N = 2
# The width of the layers, and the steps of a turn.
SIZES = {"torch": ((256, 300), (1024, 25)), "jax": ((256, 100), (1024, 15))}
# From what other programs use of a core on, gloo's threads are ordinary ones.
CHOICES = {"never": "-1e9", "by use": "gloo_threads.CROWDED_OF_OURS", "always": "1e9"}
CHOOSE = """
import time
from jupyter_ddl.engine.collectives import gloo_threads
gloo_threads.CROWDED_OF_OURS = getattr(gloo_threads, "CROWDED_OF_OURS", gloo_threads.CROWDED)
gloo_threads.CROWDED = {crowded}
time.sleep({looks} * gloo_threads.LOOK_S)
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowded", action="store_true", help="a program computes on each core")
    crowded = parser.parse_args().crowded
    with ExitStack() as stack:
        for _ in range(len(os.sched_getaffinity(0)) if crowded else 0):
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(other.wait)
            stack.callback(other.kill)
        rows = [row for framework in SIZES for row in of(framework, "by use" if crowded else "always")]
    report("gloo_threads crowded" if crowded else "gloo_threads", rows, aim=0.95 if crowded else 1.0, better="higher")


def of(framework: str, choice: str) -> list[Row]:
    """Measure one framework."""
    rows = []
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}", framework=framework, standby="never") as session:
        for width, steps in SIZES[framework]:
            session.run(LOOPS[framework].replace("256", str(width)))
            on = partial(images_per_s, session, steps, choice)
            ours, theirs = interleave(on, partial(images_per_s, session, steps, "never"), PAIRS)
            rows.append(Row(f"n={N} {framework}, layers of {width}, {choice}", ours, theirs, "images/s"))
    return rows


def images_per_s(session: Session, steps: int, choice: str) -> float:
    """Train once; return rank 0's figure."""
    # A rank judges by a whole second; where the choice is made for it, at its next look.
    session.run(CHOOSE.format(crowded=CHOICES[choice], looks=2.5 if choice == "by use" else 1.3))
    session.run(f"images_per_s = train({steps})")
    value: float = session.pull("images_per_s", [0])[0]
    return value


if __name__ == "__main__":
    main()
