"""Other kernels: Python processes that start, find and lose clusters, and are killed while they hold one."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
from processes import MARK, marked_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

# Runs each line of JSON that it gets as code, and answers with the JSON of the variable `answer`.
PROGRAM = """
import json, sys
names = {}
for line in sys.stdin:
    try:
        exec(json.loads(line), names)
        reply = {"answer": names.pop("answer", None)}
    except BaseException as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    print("\\n>>>" + json.dumps(reply), flush=True)
"""


class KernelError(Exception):
    """What the code raised in the other kernel, as `Name: text`."""


class Kernel:
    """A Python process that runs code when told to. Its clusters' processes carry the mark `mark`.

    Args:
        variables: for it, on top of this process's.
        within: a command that runs it, such as `unshare`.
        python: that runs it there.
    """

    def __init__(
        self, variables: dict[str, str] | None = None, within: Sequence[str] = (), python: str = sys.executable
    ) -> None:
        self.mark = f"{os.environ[MARK]}-{secrets.token_hex(3)}"
        self.process = subprocess.Popen(
            [*within, python, "-W", "error", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(variables or {}), MARK: self.mark},
        )

    def send(self, code: str) -> None:
        """Have code run, and return at once."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return what the code that was sent assigned to `answer`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(">>>"):
                reply = json.loads(line[3:])
                if "error" in reply:
                    raise KernelError(reply["error"])
                return reply["answer"]
        raise KernelError("the kernel has ended")

    def do(self, code: str) -> Any:
        """Run code and return what it assigned to `answer`."""
        self.send(code)
        return self.answer()

    @property
    def inside(self) -> psutil.Process:
        """The Python process itself, where a command such as `nsenter` runs it, which only waits for it."""
        (python,) = psutil.Process(self.process.pid).children()
        return python

    def descendants(self) -> list[psutil.Process]:
        """Return every process that the kernel started, or that those started, whoever their parent is by now."""
        return [process for process in marked_processes(self.mark) if process.pid != self.process.pid]

    def end(self) -> None:
        """Let the kernel end by itself, as at the end of a script."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def kill(self) -> None:
        """End the kernel as SIGKILL does."""
        self.process.kill()
        self.process.wait(60)


@contextmanager
def kernel(
    variables: dict[str, str] | None = None, within: Sequence[str] = (), python: str = sys.executable
) -> Iterator[Kernel]:
    """Give another kernel, and leave nothing of it behind."""
    other = Kernel(variables, within, python)
    try:
        yield other
    finally:
        with other.process:  # closes its pipes
            other.kill()
        left = gone_within(other, 20.0)
        said = [described(process) for process in left]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        assert not said, said


def gone_within(other: Kernel, seconds: float) -> list[psutil.Process]:
    """Wait until no process of the kernel's clusters is left; return those that are."""
    deadline_s = time.monotonic() + seconds
    while (left := other.descendants()) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return left


def described(process: psutil.Process) -> str:
    """Return what a process is, and what it waits for."""
    try:
        return f"{process} {shlex.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return str(process)


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until the condition holds; return whether it does."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def without(folder: Path, *modules: str, error: str = "ImportError('no such library')") -> dict[str, str]:
    """Return the variables of an environment where importing these modules raises."""
    for module in modules:
        (folder / f"{module}.py").write_text(f"raise {error}\n")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}
