"""`python -m jupyter_ddl.rank.script_main SCRIPT ARGS...`: runs one rank of a script, for `jupyter ddl run`.

The order matters: mpi4py initialises MPI first, so that MPI outlives Horovod's shutdown; the rank's device is pinned,
and the old imports and spellings are provided for, before the script imports anything. The script then runs as
`python SCRIPT ARGS...` would run it.

Runs on: every rank.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.protocol.codec import as_line, decode
from jupyter_ddl.protocol.requests import RunScript
from jupyter_ddl.protocol.script_frames import CONNECTION_BYTES, Connection
from jupyter_ddl.protocol.script_pipes import HeldPipes, Pipes
from jupyter_ddl.rank import start_up

if TYPE_CHECKING:
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.script_pipes import RankPipes


def main() -> None:
    """Become a rank, and run the script that the command line names.

    Collective: every rank must call this.
    """
    start_up.begin()
    request = request_in_environment()
    script, *arguments = sys.argv[1:]
    sys.argv[:] = [script, *arguments]
    world = start_up.join_world(request.n)

    from jupyter_ddl.engine.cells import Cell
    from jupyter_ddl.engine.collectives.site import add_site_libraries
    from jupyter_ddl.engine.script_guard import ScriptRank
    from jupyter_ddl.protocol.frameworks import uses_torch
    from jupyter_ddl.rank.install import install

    pipes = _pipes_of(request, world)
    pipes.take_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # It was made when descriptor 1 was mpiexec's, with the buffer of a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    with start_up.ended_by_errors(world):
        for_torch = uses_torch(Path(script).read_text(errors="replace"))
        pinned, shared = start_up.pin_device(
            world,
            request.devices,
            request.threads,
            request.allotment,
            oversubscribe=request.oversubscribe,
            for_torch=for_torch,
        )
        start_up.prepare_ml(world)
    state = install()
    state.cells.begin(Cell(world.world_size, request.options))
    start_up.add_collectives(state, world, shared)
    with start_up.ended_by_errors(world):
        add_site_libraries(state.collectives, world)
    rank = ScriptRank(world, state, pipes, request)
    rank.describe(pinned)
    _look_in_folder_of(script)
    rank.run(script)


def request_in_environment() -> RunScript:
    """Return this rank's request, and remove it from the environment.

    Raises:
        SystemExit: it is not there.
    """
    # Removed: the script's own child processes are no ranks.
    text = os.environ.pop(paths.SCRIPT_VARIABLE, None)
    if text is None:
        sys.exit(
            "jupyter_ddl.rank.script_main is one rank of a script. Received: no settings. "
            "Start it with: jupyter ddl run SCRIPT"
        )
    request: RunScript = decode(text, RunScript)
    return request


def _pipes_of(request: RunScript, world: World) -> RankPipes:
    """Return this rank's pipes. Where a relay holds them, it gets from here where the terminal is.

    Collective: every rank must call this.

    Raises:
        SystemExit: mpiexec did not hand over where the terminal is.
    """
    if request.folder is not None:
        return Pipes(Path(request.folder), world.rank)
    pipes = HeldPipes([int(number) for number in os.environ.pop(paths.PIPES_VARIABLE).split(",")])
    # mpiexec gives its input to rank 0. So keys are in no command, no environment and no file.
    line = bytearray(CONNECTION_BYTES)
    if world.rank == 0:
        said = sys.stdin.buffer.readline(CONNECTION_BYTES)
        line[: len(said)] = said
    world.communicator.Bcast(line)
    if not line.strip(b"\0"):
        sys.exit("Rank 0 was to read from mpiexec's input where the terminal is. Received: nothing.")
    connection = decode(bytes(line.rstrip(b"\0")), Connection)
    pipes.tell_relay(as_line(replace(connection, rank=world.rank)))
    return pipes


def _look_in_folder_of(script: str) -> None:
    """Look for modules in the script's folder first, as `python SCRIPT` does; ours are imported by now.

    A module that is imported already stays, where the script's folder has one of that name too.
    """
    if not getattr(sys.flags, "safe_path", False):  # -P, PYTHONSAFEPATH: Python 3.11
        sys.path.insert(0, str(Path(script).resolve().parent))


if __name__ == "__main__":
    main()
