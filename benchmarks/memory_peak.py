"""Writes what a training took beyond the memory of its process before: for `memory_program` and `memory_loop_program`.

Runs on: every rank.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable


def write_peak(train: Callable[[], float], samples: int, answer: str, limit_mib: str = "0") -> None:
    """Train, and write the peak, the samples a second and the loss into a file.

    Args:
        train: trains, and returns the loss.
        samples: that it trains with.
        answer: the file's path, as the program was given it.
        limit_mib: how much more address space the process may take, in MiB, or "0" for all: where the training needs
            more, it dies.
    """
    before = psutil.Process().memory_info()
    if int(limit_mib):
        limit = before.vms + int(limit_mib) * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    began = time.perf_counter()
    loss = train()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before.rss
    Path(answer).write_text(json.dumps({"peak_mib": peak / 2**20, "samples_s": samples / seconds, "loss": loss}))
