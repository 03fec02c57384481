"""Starts of two bare ranks, one after another, each with a cell and a pull: no pull may fail, or wait.

    python -m benchmarks.starts --times 500

Without TensorFlow. The JSON line says how many starts there were, how long the first pull after each took (median, 99
of 100, longest), and what failed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

import jupyter_ddl
from benchmarks.soak import folders
from jupyter_ddl.errors import DdlError

RANKS = 2


def starts(times: int, seconds: float) -> dict[str, Any]:
    """Start ranks and pull from them, again and again; return what came of it.

    Args:
        times: how often.
        seconds: no more begin after this time.
    """
    took_s: list[float] = []
    problems: list[str] = []
    until_s = time.monotonic() + seconds
    with folders(bare=True) as environment:
        while len(took_s) + len(problems) < times and time.monotonic() < until_s:
            try:
                took_s.append(_first_pull_s(environment))
            except (DdlError, AssertionError) as error:
                problems.append(f"start {len(took_s) + len(problems) + 1}: {error!r}")
            print(f"  {len(took_s)} of {times}, {len(problems)} failed", file=sys.stderr, flush=True)
    ordered = sorted(took_s) or [0.0]
    return {
        "name": "starts",
        "starts": len(took_s) + len(problems),
        "holds": not problems,
        "problems": problems,
        "first_pull_s": {
            "median": round(statistics.median(ordered), 3),
            "99 of 100": round(ordered[int(0.99 * (len(ordered) - 1))], 3),
            "longest": round(ordered[-1], 3),
        },
    }


def _first_pull_s(environment: dict[str, str]) -> float:
    with jupyter_ddl.start(n=RANKS, name=f"starts-{os.getpid()}", gpus="none", env=environment) as session:
        session.run("x = rank + 1")
        began_s = time.monotonic()
        values = session.pull("x")
        seconds = time.monotonic() - began_s
    assert values == {rank: rank + 1 for rank in range(RANKS)}, values
    return seconds


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3600.0)
    arguments = parser.parse_args()
    result = starts(arguments.times, arguments.seconds)
    print(json.dumps(result), flush=True)
    sys.exit(0 if result["holds"] else 1)


if __name__ == "__main__":
    main()
