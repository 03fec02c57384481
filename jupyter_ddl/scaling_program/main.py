"""Measures one side once, as the processes of it: `SIDE MODEL --out FILE ...`; the first process writes FILE.

Runs on: every process of a side. Collective: every rank must run this.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from jupyter_ddl.scaling_program.models import catalogue
from jupyter_ddl.scaling_program.training import Measured, Task


def main() -> None:
    """Run this process's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["horovod", "mirrored", "multiworker", "grpc", "parameter-server"])
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--warm-up", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--cores", help="those that this process keeps to, e.g. 0,1")
    given = parser.parse_args()
    if given.cores:
        os.sched_setaffinity(0, {int(core) for core in given.cores.split(",")})
    task = Task(catalogue.find(given.model), given.batch_size, given.size, given.warm_up, given.steps)
    found = _measured(given.side, task, given.replicas)
    if found is not None:
        given.out.write_text(json.dumps(asdict(found)))


def _measured(side: str, task: Task, replicas: int) -> Measured | None:
    if side == "horovod":
        from jupyter_ddl.scaling_program import horovod_side

        return horovod_side.measure(task)
    from jupyter_ddl.scaling_program import strategy_sides

    if side == "mirrored":
        return strategy_sides.mirrored(task, replicas)
    if side == "parameter-server":
        return strategy_sides.parameter_server(task)
    return strategy_sides.multi_worker(task, over_grpc=side == "grpc")


if __name__ == "__main__":
    main()
