"""Reads what memory the device of a rank has: of its GPU by NVML, else the host's within its cgroups' limits.

What a site lets a rank hold counts too: a rank that holds more is ended (`host.memory_watch`).

Runs on: every rank, or any process.
"""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from jupyter_ddl.engine.gpu import Gpu
from jupyter_ddl.engine.gpu_share import BESIDE_BYTES
from jupyter_ddl.host.cores import memory_limit_bytes
from jupyter_ddl.host.rank_limits import RankLimits
from jupyter_ddl.paths import RANKS_VARIABLE, SCRIPT_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Capacity:
    """What one rank may use.

    Attributes:
        size_bytes: how much.
        what: whose, as a clause.
        is_gpu: it is a GPU's: libraries and data are elsewhere.
    """

    size_bytes: int
    what: str
    is_gpu: bool = False


def capacity(ranks: int, variables: Mapping[str, str] | None = None) -> Capacity:
    """Return what one rank may use: the least of what its device has and what its site lets it hold.

    Args:
        ranks: that train together; those of this host share its memory, which each has an equal part of.
        variables: with which the rank was started; by default this process's.
    """
    limits = _limits_in(_started_with() if variables is None else variables)
    gpu = Gpu.of_this_rank()
    if gpu is not None and (total := gpu.read().gpu_memory_total_bytes) is not None:
        return _of_gpu(total, limits)
    here = ranks_here(ranks)
    what = "this host has" if here == 1 else f"each of this host's {here} ranks has"
    found = [Capacity(memory_limit_bytes() // here, what)]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft not in (resource.RLIM_INFINITY, -1):
        found.append(Capacity(soft, "a process may use, by RLIMIT_AS,"))
    if limits is not None and limits.memory is not None:
        found.append(Capacity(limits.memory.most_bytes, f"a rank may hold, by {limits.memory.by}"))
    return min(found, key=lambda one: one.size_bytes)


def ranks_here(ranks: int) -> int:
    """Return how many of the ranks share this host: as a rank's environment says, else all."""
    said = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(said) if said.isdecimal() and int(said) > 0 else max(1, ranks)


def world_size() -> int:
    """Return how many ranks there are, as a rank's environment says; 1 where this is no rank."""
    said = os.environ.get("WORLD_SIZE", "")
    return int(said) if said.isdecimal() and int(said) > 0 else 1


def _of_gpu(total_bytes: int, limits: RankLimits | None) -> Capacity:
    share = None if limits is None else limits.share
    # What frameworks may allocate of a share (`engine.gpu_share`).
    if share is not None and share.share_bytes is not None and share.share_bytes - BESIDE_BYTES < total_bytes:
        return Capacity(share.share_bytes - BESIDE_BYTES, f"a rank may allocate of its GPU, by {share.by}", is_gpu=True)
    return Capacity(total_bytes, "this rank's GPU has", is_gpu=True)


def _started_with() -> Mapping[str, str]:
    """Return the variables with which this process was started: a script's rank has removed its own since."""
    try:
        return psutil.Process().environ()
    except psutil.Error:
        # A process that may not be looked into cannot look into itself.
        return os.environ


def _limits_in(variables: Mapping[str, str]) -> RankLimits | None:
    """Return a site's limits, in a rank's settings or in its script's request; None where there are none."""
    for name in (RANKS_VARIABLE, SCRIPT_VARIABLE):
        if name in variables:
            return RankLimits.in_record(json.loads(variables[name]))
    return None
