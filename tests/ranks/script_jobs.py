"""Scripts on real ranks, by `jupyter ddl run` as people call it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
from processes import MARK, marked_processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

COMMAND = [sys.executable, "-m", "jupyter_ddl.cli", "run"]
# Deadlines mean "did not hang": two ranks that import TensorFlow on a busy machine take a while.
TIMEOUT_S = 240.0
GONE_S = 20.0

RANK = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"
HOROVOD = """
import sys, time
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
rank = hvd.rank()
print("sum", hvd.allreduce(tf.constant(rank + 1.0), op=hvd.Sum).numpy())
"""


class Job:
    """A running `jupyter ddl run`. All that it starts carries the mark."""

    def __init__(self, folder: Path, script: str, options: Sequence[str] = ()) -> None:
        (folder / "script.py").write_text(script)
        self.mark = f"{os.environ[MARK]}-{secrets.token_hex(3)}"
        self.printed = folder / "printed.txt"
        self.errors = folder / "errors.txt"
        with self.printed.open("w") as out, self.errors.open("w") as err:
            self.process = subprocess.Popen(
                [*COMMAND, "-n", "2", "--no-legacy", *options, "script.py"],
                cwd=folder,
                stdout=out,
                stderr=err,
                env={**os.environ, MARK: self.mark},
            )

    def wait_for(self, text: str) -> None:
        """Wait until both ranks have printed a text."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not self.has_printed(text):
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < deadline_s, self.errors.read_text()
            time.sleep(0.05)

    def has_printed(self, text: str) -> bool:
        """Return whether both ranks have printed a text, at once or one after the other."""
        printed = self.printed.read_text()
        return f"[0-1] {text}" in printed or (f"[0]   {text}" in printed and f"[1]   {text}" in printed)

    def left(self, within_s: float = GONE_S) -> list[psutil.Process]:
        """Return what is left of its processes after a time, itself not counted."""
        others = [process for process in marked_processes(self.mark) if process.pid != self.process.pid]
        _, alive = psutil.wait_procs(others, timeout=within_s)
        return alive


@contextmanager
def started(folder: Path, script: str, *options: str) -> Iterator[Job]:
    """Start a script on two ranks; the options are ours."""
    job = Job(folder, script, options)
    try:
        yield job
    finally:
        job.process.kill()
        job.process.wait()
        left = job.left()
        for process in left:
            process.kill()
        assert not left


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script on two ranks; arguments that begin with a hyphen are ours, the others the script's."""
    (folder / "script.py").write_text(script)
    options = [argument for argument in arguments if argument.startswith("-")] or ["-n2"]
    others = [argument for argument in arguments if not argument.startswith("-")]
    return subprocess.run(
        [*COMMAND, *options, "script.py", *others],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def said(rank: int, printed: str) -> list[str]:
    """Return the lines of one rank: ranks that are far apart in time do not share them."""
    lines = [line.partition("] ") for line in printed.splitlines()]
    return [text.strip() for heading, _, text in lines if heading in (f"[{rank}", "[0-1")]
