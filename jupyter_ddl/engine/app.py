"""The rank as an ipyparallel engine: registration, heartbeat and messages are ipyparallel's, the handlers are ours.

Runs on: every rank.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipyparallel.engine.app import IPEngine

from jupyter_ddl.engine import display, refusals
from jupyter_ddl.engine.capture import Capture
from jupyter_ddl.engine.display import Outlet
from jupyter_ddl.engine.emitter import Emitter
from jupyter_ddl.engine.guard import Guard
from jupyter_ddl.engine.handlers import Handlers
from jupyter_ddl.engine.journal import Journal
from jupyter_ddl.engine.last_words import LastWords
from jupyter_ddl.engine.run_files import RunFiles
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.engine.stacks import write_on_signal

if TYPE_CHECKING:
    from jupyter_ddl.engine.devices import Pinned
    from jupyter_ddl.engine.warmup import Warmup
    from jupyter_ddl.engine.world import World

# Source: tornado 6.5, tornado/ioloop.py, IOLoop.run_sync
_LOOP_STOPPED = "Event loop stopped before Future completed."


class RankEngine(IPEngine):
    """An ipyparallel engine that is one rank of an MPI world.

    Its identity on ipyparallel's sockets is `WORLD_ID.RANK`, so that the session addresses ranks and never has to
    map engine ids, which are given out in order of arrival.
    """

    world: World
    pinned: Pinned
    warmup: Warmup

    @classmethod
    def run(cls, world: World, pinned: Pinned, warmup: Warmup, *, world_id: str, connection_file: str) -> None:
        """Register with the controller and serve until the rank is ended."""
        # The application logs to what is stderr now: mpiexec's own output. Later that descriptor is the cell's.
        sys.stderr = io.TextIOWrapper(os.fdopen(os.dup(2), "wb"), errors="backslashreplace", line_buffering=True)
        engine = cls.instance()
        engine.world, engine.pinned, engine.warmup = world, pinned, warmup
        engine.initialize(
            [
                # Not ~/.ipython: the home may be read-only, and the user's start-up files are for kernels.
                f"--profile-dir={Path(connection_file).parent.parent}",
                f"--IPEngine.url_file={connection_file}",
                # Both start at once, so the controller's file may come after us; on a busy machine much after.
                "--IPEngine.wait_for_url_file=120",
                "--IPEngine.timeout=120",
                # One more process a rank, whose two tasks are done elsewhere: the guard releases, mpiexec ends.
                "--IPEngine.enable_nanny=False",
                "--log-level=WARN",
            ]
        )
        engine.id = world.rank
        engine.ident = f"{world_id}.{world.rank}"
        try:
            engine.start()
        except RuntimeError as error:
            # The handler of SIGTERM, by which a rank is ended, stops the loop; tornado has no other name for that.
            if str(error) != _LOOP_STOPPED:
                raise

    def redirect_output(self, iopub_socket: Any) -> None:
        """Take over output and add our handlers: ipyparallel calls this when the kernel has been made."""
        if self.id != self.world.rank:
            # Another engine holds our id: this connection file is not this world's.
            self.log.fatal("Rank %i was given engine id %i", self.world.rank, self.id)
            self.exit(1)
        kernel, shell = self.kernel, self.kernel.shell
        files = RunFiles(self.world.rank)
        emit = Journal(self.world.rank, Emitter(self.session, iopub_socket), files)
        capture = Capture(self.world.rank, emit, files)
        log_dir = Path(self.url_file).parent.parent / "log"
        last_words = LastWords(self.world.rank, log_dir / f"rank-{self.world.rank}.run", capture.readers)
        write_on_signal(log_dir / f"rank-{self.world.rank}.stacks")
        outlet = Outlet(self.world.rank, emit, capture)
        display.install(shell, outlet)
        refusals.install(shell)
        # By this tqdm and others decide for widgets, which need a front end that talks to this process.
        shell.config.pop("IPKernelApp", None)
        shell.user_ns.update(rank=self.world.rank, local_rank=self.world.local_rank, world_size=self.world.world_size)
        sampler = Sampler(self.world.rank, emit)
        emit.when_begun(last_words.belong_to)
        guard = Guard(shell, self.world, emit, capture, outlet, sampler, self.warmup)
        Handlers(self.world, self.pinned, self.warmup, guard, emit).install(kernel)
