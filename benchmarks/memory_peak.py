"""Writes what a training took beyond the memory of its process before: for `memory_program` and `memory_loop_program`.

Runs on: every rank.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable


def write_peak(train: Callable[[], float], samples: int) -> None:
    """Train, and write the peak, the samples a second and the loss into the program's first argument, a file.

    A second argument is how much more address space the process may take, in MiB: where the training needs more, it
    dies.

    Args:
        train: trains, and returns the loss.
        samples: that it trains with.
    """
    answer, limit_mib = Path(sys.argv[1]), int((*sys.argv[2:], "0")[0])
    before = psutil.Process().memory_info()
    if limit_mib:
        limit = before.vms + limit_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    began = time.perf_counter()
    loss = train()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before.rss
    answer.write_text(json.dumps({"peak_mib": peak / 2**20, "samples_s": samples / seconds, "loss": loss}))
