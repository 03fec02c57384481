"""Records a collective of gloo's many times, and prints how often, and whether gloo had still to note the end of one.

gloo's threads share one core with the thread that computes, which goes first: so they are behind it. What torch's own
record has as retired was noted with the profiler before that. A thread that has retired all still runs for a moment,
which does no harm: once in 1,600 times Linux had taken the core from it then. Without such a record it counts, too.

Source: torch 2.13, torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, runLoop: `execute`, then `retire_id`.

Run as: python gloo_profiles.py waits|stock
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.autograd import profiler

from jupyter_ddl.engine.collectives import gloo_works

TIMES = 50
TASKS = Path("/proc/self/task")


def named(name: str) -> list[Path]:
    return [task for task in TASKS.iterdir() if (task / "comm").read_text().strip() == name]


def is_behind(workers: list[Path]) -> bool:
    """Return whether gloo has still to note the end of what the program waits for no more."""
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    works = json.loads(dump()).get("entries") if dump is not None else None
    if works:
        return not all(work["retired"] for work in works)
    return any((task / "stat").read_text().rpartition(")")[2].split()[0] == "R" for task in workers)


def main(how: str) -> None:
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1"}
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    core = {min(os.sched_getaffinity(0))}
    for task in TASKS.iterdir():
        os.sched_setaffinity(int(task.name), core)
    workers = named("pt_gloo_runloop")
    for task in workers:
        os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
    behind = []
    stock = profiler._disable_profiler

    def disable() -> object:
        behind.append(is_behind(workers))
        return stock()

    profiler._disable_profiler = disable
    if how == "waits":
        gloo_works.install(profiler)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    data = torch.ones(4, 8)
    for _ in range(TIMES):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            model(data).sum().backward()
        if behind[-1]:
            # The heap is damaged from here on.
            break
    print(len(behind), sum(behind), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
