"""Reads what memory the device of a rank has: of its GPU by NVML, else the host's within its cgroups' limits.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import os
import resource

from jupyter_ddl.engine.gpu import Gpu
from jupyter_ddl.host.cores import memory_limit_bytes


def capacity(ranks: int) -> tuple[int, str]:
    """Return the bytes that one rank may use, and what they are, as a clause.

    Args:
        ranks: that train together; those of this host share its memory, which each has an equal part of.
    """
    gpu = Gpu.of_this_rank()
    if gpu is not None and (total := gpu.read().gpu_memory_total_bytes) is not None:
        return total, "this rank's GPU has"
    here = ranks_here(ranks)
    share = memory_limit_bytes() // here
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft not in (resource.RLIM_INFINITY, -1) and soft < share:
        return soft, "a process may use, by RLIMIT_AS,"
    return share, "this host has" if here == 1 else f"each of this host's {here} ranks has"


def ranks_here(ranks: int) -> int:
    """Return how many of the ranks share this host: as a rank's environment says, else all."""
    said = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(said) if said.isdecimal() and int(said) > 0 else max(1, ranks)


def world_size() -> int:
    """Return how many ranks there are, as a rank's environment says; 1 where this is no rank."""
    said = os.environ.get("WORLD_SIZE", "")
    return int(said) if said.isdecimal() and int(said) > 0 else 1
