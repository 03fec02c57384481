"""One fault on one side, in a process of its own: `python faults_side.py SIDE FAULT`. It imports nothing of ours.

Prints a line of JSON at each stage: `ready`, `ended` (the cell with the fault) and `next` (the cell after it). What
does not come has hung, which is for the caller to tell.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

DELAY_S = 2.0
_HOROVOD = "import os, time, tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nkept = 40\n"
_TORCH = "import os, time, torch, torch.distributed as dist\nkept = 40\n"
_MPI_RANK = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"


@dataclass(frozen=True)
class Side:
    """What a user types: a cell with `magic` and `setup_options` that sets up, and then cells."""

    magic: str
    setup: str
    allreduce: str
    setup_options: str = ""


SIDES = {
    "ours": Side("distributed", _HOROVOD, "hvd.allreduce(tf.ones(1))", "--setup"),
    "px": Side("px", _MPI_RANK + _HOROVOD, "hvd.allreduce(tf.ones(1))"),
    "nbdistributed": Side("distributed", _TORCH, "dist.all_reduce(torch.ones(1))"),
}
# What rank 1 does while rank 0 is in an allreduce.
FAULTS = {
    "one rank raises": f"time.sleep({DELAY_S}); raise ValueError('no good')",
    "kill -9 of a rank": "time.sleep(600)",
    "interrupt of a blocked collective": "time.sleep(600)",
    "one rank of two enters": "pass",
}


class Heard(io.TextIOBase):
    """Takes what cells print, and notes when a pattern first came."""

    def __init__(self) -> None:
        self.text = ""
        self.first_s: float | None = None

    def write(self, text: str) -> int:
        """Take a piece."""
        self.text += text
        if self.first_s is None and "The cell has stalled" in self.text:
            self.first_s = time.monotonic()
            # The report is what a user waits for; what they do then is interrupt.
            os.kill(os.getpid(), signal.SIGINT)
        return len(text)


def start(side: str, shell: Any) -> None:
    """Start two ranks."""
    if side == "ours":
        shell.run_line_magic("load_ext", "jupyter_ddl")
        shell.run_line_magic("ddl", f"start -n 2 --name faults-{os.getpid()}")
    elif side == "nbdistributed":
        shell.run_line_magic("load_ext", "nbdistributed")
        shell.run_line_magic("dist_init", "-n 2")
    else:
        import ipyparallel

        cluster = ipyparallel.Cluster(n=2, engines="mpi", log_level=50)
        view = cluster.start_and_connect_sync()[:]
        view.block = True
        view.activate()


def main() -> None:
    """Run the side and the fault that the command line names."""
    side, fault = SIDES[sys.argv[1]], sys.argv[2]
    report, heard = sys.stdout, Heard()
    sys.stdout = sys.stderr = heard

    def tell(stage: str, **facts: object) -> None:
        print(json.dumps({"stage": stage, **facts}), file=report, flush=True)

    def cell(code: str, options: str = "") -> str | None:
        """Run a cell; return the error that the notebook shows, or None."""
        try:
            shell.run_cell_magic(side.magic, options, code)
        except BaseException as error:  # noqa: BLE001  whatever a notebook would show
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return None

    shell: Any = InteractiveShell.instance()
    start(sys.argv[1], shell)
    cell(side.setup + side.allreduce + "\nprint('pid', rank, os.getpid())", side.setup_options)
    found = re.search(r"pid 1 (\d+)", heard.text)
    assert found, heard.text
    heard.text = ""
    tell("ready")
    if fault != "one rank of two enters":
        heard.first_s = 0.0  # only there a report is waited for
    if fault.startswith("kill"):
        threading.Timer(DELAY_S, os.kill, (int(found[1]), signal.SIGKILL)).start()
    elif fault.startswith("interrupt"):
        threading.Timer(DELAY_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    moment_s = time.monotonic() + (0.0 if fault.startswith("one rank of") else DELAY_S)
    error = cell(f"if rank == 1:\n    {FAULTS[fault]}\nelse:\n    {side.allreduce}")
    ended_s = heard.first_s or time.monotonic()
    tell("ended", seconds=round(ended_s - moment_s, 2), said=error or _last(heard.text))
    heard.text, heard.first_s = "", 0.0
    error = cell("print('value', kept + 2)")
    works = heard.text.count("value 42") > 0
    tell("next", works=works, seconds=round(time.monotonic() - moment_s, 2), said=error or _last(heard.text))


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "rror" in line or "ollective" in line]
    return (named or lines or ["nothing"])[0]


if __name__ == "__main__":
    main()
