"""`python -m jupyter_ddl.script.reaper INPUT FOLDER PROGRAM ARGS...`: runs a program that cannot outlive the caller.

INPUT is the number of the descriptor that the program gets as its standard input; FOLDER is the caller's for temporary
files, which is removed at the end where the caller was killed and could not.

It ends the program and all that the program started when

- its standard input closes, as it does when the process at the other end ends or is killed,
- it gets SIGTERM, SIGINT or SIGHUP,
- the program ends by itself: what it left behind ends too.

Its exit status is the program's; of one that a signal ended, 128 plus the signal's number.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

from jupyter_ddl.host.process_tree import adopt_orphans, end_descendants

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIGNALLED = 128
# How long the program may take to end what it has started.
_GRACE_S = 5.0


async def hold(command: Sequence[str], given: int) -> int:
    """Run a command to its end, or to ours; return its exit status when no process of it is left.

    Args:
        command: the program and its arguments.
        given: the descriptor that is its standard input.
    """
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, asked.set)

    def on_stdin() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            asked.set()

    loop.add_reader(0, on_stdin)
    process = await asyncio.create_subprocess_exec(*command, stdin=given)
    os.close(given)
    ended = asyncio.create_task(process.wait())
    told = asyncio.create_task(asked.wait())
    await asyncio.wait((ended, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if not ended.done():
        # mpiexec passes SIGTERM on, and ends when its ranks have. It is ended first, so that asyncio gets its status.
        process.terminate()
        await asyncio.wait((ended,), timeout=_GRACE_S)
    await asyncio.to_thread(end_descendants)
    status = await ended
    return status if status >= 0 else _SIGNALLED - status


def main() -> None:
    """Run the command that the command line gives."""
    adopt_orphans()
    caller = os.getppid()
    given, folder, *command = sys.argv[1:]
    status = asyncio.run(hold(command, int(given)))
    if os.getppid() != caller:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
