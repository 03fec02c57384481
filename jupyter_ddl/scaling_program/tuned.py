"""Runs a user's script until it has trained for some steps, and writes how long they took.

`tuned.py OUT WARM_UP STEPS GROUPS|- COMPRESSION|- cell|script SCRIPT ARGS...`.

Runs on: every rank. Collective: every rank must run this, and ends after the same step.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.training.optimizer.tried import Tried


class EnoughSteps(BaseException):
    """The steps have been timed. No program catches this by chance: it is no Exception."""


class Timed:
    """The seconds of each step after the first ones.

    Args:
        warm_up: steps that are not timed.
        steps: those that are; the last one raises EnoughSteps.
    """

    def __init__(self, warm_up: int, steps: int) -> None:
        self._warm_up = warm_up
        self._steps = steps
        self._seen = 0
        self.step_s: list[float] = []

    def ended(self, begin_s: float, end_s: float) -> None:
        """Note a step."""
        self._seen += 1
        if self._seen > self._warm_up:
            self.step_s.append(end_s - begin_s)
        if len(self.step_s) >= self._steps:
            raise EnoughSteps


def changes(groups: str, compression: str) -> dict[str, Any]:
    """Return what is tried of an exchange, as its fields; "-" leaves what the program says."""
    found: dict[str, Any] = {}
    if groups != "-":
        found["groups"] = int(groups)
    if compression != "-":
        import horovod.tensorflow as hvd

        found["compression"] = getattr(hvd.Compression, compression)
    return found


def names_of_a_cell() -> dict[str, int]:
    """Return what a cell of `%%distributed` finds set, and a script does not."""
    return {name: int(os.environ[name.upper()]) for name in ("rank", "local_rank", "world_size")}


def main() -> None:
    """Run this rank's part."""
    from mpi4py import MPI

    out, warm_up, steps, groups, compression, kind, script, *arguments = sys.argv[1:]
    state = rank_state.here()
    state.part(Tried).changes = changes(groups, compression)
    timed = Timed(int(warm_up), int(steps))
    state.meter.step_times.observe(timed.ended)
    sys.argv[:] = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    with suppress(EnoughSteps):
        runpy.run_path(script, names_of_a_cell() if kind == "cell" else {}, run_name="__main__")
    if MPI.COMM_WORLD.rank == 0:
        Path(out).write_text(json.dumps(timed.step_s))


if __name__ == "__main__":
    main()
