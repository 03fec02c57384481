"""One fault on one side, in its own process: `python faults_side.py SIDE FAULT REST_S`. It imports nothing of ours.

Prints a line of JSON at each stage: `ready`, `ended` (the cell with the fault) and `next` (the cell after it). What
does not come has hung, which is for the caller to tell.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    from collections.abc import Callable

DELAY_S = 2.0
_HOROVOD = "import os, time, tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nkept = 40\n"
_TORCH = "import os, time, torch, torch.distributed as dist\nkept = 40\n"
_GROUP = "if not dist.is_initialized(): dist.init_process_group()\n"
_TORCH_REDUCE = "dist.all_reduce(torch.ones(1))"
# Each print has one argument: nbdistributed shows each on a line of its own.
_VALUE = "print(f'value {kept + 2}')"
_MPI_RANK = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"


@dataclass(frozen=True)
class Side:
    """What a user types: a cell with `magic` and `setup_options` that sets up, then cells, and `following` at last."""

    magic: str
    setup: str
    allreduce: str
    setup_options: str = ""
    following: str = _VALUE


SIDES = {
    "ours": Side("distributed", _HOROVOD, "hvd.allreduce(tf.ones(1))", "--setup"),
    "px": Side("px", _MPI_RANK + _HOROVOD, "hvd.allreduce(tf.ones(1))"),
    "ours_torch": Side(
        "distributed", _TORCH + _GROUP, _TORCH_REDUCE, "--setup", _GROUP + _TORCH_REDUCE + "\n" + _VALUE
    ),
    "nbdistributed": Side("distributed", _TORCH, _TORCH_REDUCE, following=_GROUP + _TORCH_REDUCE + "\n" + _VALUE),
    "notebook_launcher": Side("launched", "", _TORCH_REDUCE, following=_TORCH_REDUCE + "\n" + _VALUE),
}
# What rank 1 does while rank 0 is in an allreduce.
FAULTS = {
    "one rank raises": f"time.sleep({DELAY_S}); print(f'at {{time.monotonic()}}', flush=True); raise ValueError('no')",
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


class Launched:
    """A cell magic that does what `accelerate`'s users do: the cell is a function, and `notebook_launcher` runs it.

    Its processes are new for each cell, and are copies of the notebook's: they have its variables. What they print goes
    to a file, since the notebook's own output is an object here.
    """

    def __init__(self, shell: Any) -> None:
        shell.user_ns["kept"] = 40
        self._shell = shell
        self.printed = Path(tempfile.mkstemp()[1])

    def __call__(self, _line: str, code: str) -> None:
        """Run the cell on two processes."""
        from accelerate import notebook_launcher

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.printed.write_text("")
        try:
            notebook_launcher(self._on_rank, (code,), num_processes=2, use_port=str(port))
        finally:
            print(self.printed.read_text())

    def _on_rank(self, code: str) -> None:
        import torch
        import torch.distributed as dist
        from accelerate import PartialState

        sys.stdout = self.printed.open("a", buffering=1)
        rank = PartialState(cpu=True).process_index
        exec(code, {**self._shell.user_ns, "rank": rank, "torch": torch, "dist": dist, "time": time, "os": os})


def start(side: str, shell: Any, heard: Heard) -> Callable[[], str]:
    """Start two ranks; return what tells what they have printed so far."""
    if side.startswith("ours"):
        framework = "--framework torch " if side == "ours_torch" else ""
        shell.run_line_magic("load_ext", "jupyter_ddl")
        shell.run_line_magic("ddl", f"start -n 2 {framework}--name faults-{os.getpid()}")
    elif side == "nbdistributed":
        shell.run_line_magic("load_ext", "nbdistributed")
        shell.run_line_magic("dist_init", "-n 2")
        # It returns before its ranks listen, and a cell that comes sooner is lost: it times out after 30 s.
        while "listens" not in heard.text:
            shell.run_cell_magic("distributed", "", "print('listens')")
    elif side == "notebook_launcher":
        launched = Launched(shell)
        shell.register_magic_function(launched, "cell", "launched")
        return lambda: heard.text + launched.printed.read_text()
    else:
        import ipyparallel

        cluster = ipyparallel.Cluster(n=2, engines="mpi", log_level=50)
        view = cluster.start_and_connect_sync()[:]
        view.block = True
        view.activate()
    return lambda: heard.text


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
    said = start(sys.argv[1], shell, heard)
    tell_pid = "print(f'pid {rank} {os.getpid()}', flush=True)\n"
    error = cell(side.setup + side.allreduce + "\n" + tell_pid, side.setup_options)
    assert _pid(said()), (error, heard.text)
    heard.text = ""
    time.sleep(float(sys.argv[3]))
    tell("ready")
    if fault != "one rank of two enters":
        heard.first_s = 0.0  # only there a report is waited for
    if fault.startswith("kill"):
        threading.Timer(DELAY_S, lambda: os.kill(_pid(said()), signal.SIGKILL)).start()
    elif fault.startswith("interrupt"):
        threading.Timer(DELAY_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    moment_s = time.monotonic() + (0.0 if fault.startswith("one rank of") else DELAY_S)
    error = cell(f"{tell_pid}if rank == 1:\n    {FAULTS[fault]}\nelse:\n    {side.allreduce}")
    ended_s = heard.first_s or time.monotonic()
    raised = re.search(r"\bat ([0-9.]+)", said())
    moment_s = float(raised[1]) if raised else moment_s  # all processes of a host share this clock
    tell("ended", seconds=round(ended_s - moment_s, 2), said=error or _last(heard.text))
    heard.text, heard.first_s = "", 0.0
    error = cell(side.following)
    works = heard.text.count("value 42") > 0
    tell("next", works=works, seconds=round(time.monotonic() - moment_s, 2), said=error or _last(heard.text))


def _pid(text: str) -> int:
    """Return the process of rank 1 that was told last, or 0."""
    found = re.findall(r"pid 1 (\d+)", text)
    return int(found[-1]) if found else 0


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "rror" in line or "ollective" in line]
    return (named or lines or ["nothing"])[0]


if __name__ == "__main__":
    main()
