"""Runs the rank as an ipyparallel engine: registration, heartbeat and messages are ipyparallel's, handlers are ours.

Runs on: every rank.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from ipyparallel.engine import app
from ipyparallel.engine.app import IPEngine

from jupyter_ddl.engine import disabled_calls
from jupyter_ddl.engine.capture import Capture
from jupyter_ddl.engine.controller_watch import watch_controller
from jupyter_ddl.engine.debugging.rank_debugger import RankDebugger
from jupyter_ddl.engine.display import Outlet
from jupyter_ddl.engine.emitter import Emitter
from jupyter_ddl.engine.event_log import Journal
from jupyter_ddl.engine.fatal_exit import Leaving
from jupyter_ddl.engine.forks import Forks
from jupyter_ddl.engine.guard import Guard
from jupyter_ddl.engine.handlers import Handlers
from jupyter_ddl.engine.last_words import LastWords
from jupyter_ddl.engine.rank_shell import RankKernel
from jupyter_ddl.engine.sampler import Sampler, links_of
from jupyter_ddl.engine.stack_dump import write_on_signal
from jupyter_ddl.engine.tasks import Tasks
from jupyter_ddl.host import files
from jupyter_ddl.host.patching import Layer, instead, patch
from jupyter_ddl.host.run_files import RunFiles
from jupyter_ddl.host.run_module import hide_working_folder, show_working_folder
from jupyter_ddl.protocol.exit_statuses import LOOP_ENDED
from jupyter_ddl.protocol.rank_files import PROCESS, RUN_NOTE, STACKS, rank_file

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.engine.devices import Pinned
    from jupyter_ddl.engine.host_folder import HostFolder
    from jupyter_ddl.engine.preload import Warmup
    from jupyter_ddl.engine.rank_state import RankState
    from jupyter_ddl.engine.world import World


class RankEngine(IPEngine):
    """An ipyparallel engine that is one rank of an MPI world.

    Its identity on ipyparallel's sockets is `WORLD_ID.RANK`, so that the session addresses ranks and never has to
    map engine ids, which are given out in order of arrival.
    """

    world: World
    state: RankState
    pinned: Pinned
    warmup: Warmup
    folder: HostFolder

    leaving: Leaving
    forks: Forks

    @classmethod
    def run(
        cls,
        world: World,
        state: RankState,
        pinned: Pinned,
        warmup: Warmup,
        folder: HostFolder,
        *,
        world_id: str,
        connection: str,
    ) -> NoReturn:
        """Register with the controller and serve until the rank is ended.

        Args:
            world: this rank's.
            state: of this process.
            pinned: what it computes with.
            warmup: its background imports.
            folder: the cluster's, or this host's own.
            world_id: identifies this world of ranks.
            connection: ipyparallel's connection info, as JSON; empty where the cluster's folder has or will have it.
        """
        _note_process(folder.log_dir, world)
        # MPI_Init replaces SIGHUP's handler (Open MPI 5.0.11), which then does nothing. Restore Python's: SIGHUP ends
        # the rank, or is ignored under nohup.
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        # The application logs to the present stderr, which is mpiexec's output. Later that descriptor is the cell's.
        log = os.dup(2)
        sys.stderr = io.TextIOWrapper(os.fdopen(log, "wb"), errors="backslashreplace", line_buffering=True)
        # ipyparallel names its kernel class nowhere but in its own module.
        patch(app, "Kernel", RankKernel, Layer.RANK, instead)
        engine = cls.instance()
        engine.world, engine.state, engine.pinned, engine.warmup = world, state, pinned, warmup
        engine.leaving, engine.forks = leaving, forks = Leaving(), Forks()
        engine.folder = folder
        if connection:
            engine.connection_info_env = connection
        forks.ours += [log, leaving.log]
        why = "its event loop was stopped"
        try:
            engine.initialize(
                [
                    # Not ~/.ipython: the home may be read-only, and the user's start-up files are for kernels.
                    f"--profile-dir={folder.path}",
                    f"--IPEngine.url_file={folder.connection_file}",
                    # Both start at once, so the controller's file may appear after us, on a busy machine much later.
                    "--IPEngine.wait_for_url_file=120",
                    "--IPEngine.timeout=120",
                    # It would be one more process a rank, and its two tasks are done elsewhere: the guard releases,
                    # mpiexec ends.
                    "--IPEngine.enable_nanny=False",
                    "--log-level=WARN",
                ]
            )
            engine.id = world.rank
            engine.ident = f"{world_id}.{world.rank}"
            engine.start()
        except BaseException:  # noqa: BLE001  a rank must end however its loop did, and its log says why
            why = traceback.format_exc()
        # Python's own exit would wait in MPI_Finalize for the other ranks, as they would for this one.
        leaving(LOOP_ENDED, why)

    def init_signal(self) -> None:
        """Restore SIGTERM's default, which ends the process in any state; ipyparallel's handler only stops the loop.

        A batch system's signal may come while the rank waits in a collective or computes in C++ code: Python would
        handle it when that returns, and then wait for the other ranks in MPI_Finalize.
        """
        signal.signal(signal.SIGINT, self._signal_sigint)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def start_heartbeat(self, hb_ping: str, *other: Any) -> None:
        """Answer the controller's heartbeats, and end this rank where they stay away: it may have no other way back."""
        super().start_heartbeat(hb_ping, *other)
        watch_controller(hb_ping, self.curve_serverkey, self.leaving)

    def init_engine(self) -> None:
        """Connect. Meanwhile ipyparallel puts the working folder first in sys.path, while background imports run."""
        hide_working_folder()
        super().init_engine()
        show_working_folder()

    def redirect_output(self, iopub_socket: Any) -> None:
        """Take over output and add our handlers: ipyparallel calls this when the kernel has been made."""
        if self.id != self.world.rank:
            # Another engine holds our id: this connection file is not this world's.
            self.log.fatal("Rank %i was given engine id %i", self.world.rank, self.id)
            self.exit(1)
        # ipykernel notes four messages of each request for debugging, which traitlets has made before it drops them.
        self.log.setLevel(self.log_level)
        kernel, shell = self.kernel, self.kernel.shell
        run_files = RunFiles(self.world.rank)
        emitter = Emitter(self.session, iopub_socket)
        emit = Journal(self.world.rank, emitter, run_files, self.folder)
        resting = self.state.collectives.resting
        capture = Capture(
            self.world,
            emit,
            run_files,
            self.leaving,
            lambda stalled: emit(resting.with_known_ranks(stalled, self.world)),
        )
        log_dir = self.folder.log_dir
        last_words = LastWords(self.world.rank, log_dir / rank_file(self.world.rank, RUN_NOTE), capture.readers)
        write_on_signal(log_dir / rank_file(self.world.rank, STACKS))
        outlet = Outlet(self.world.rank, emit, capture)
        shell.send_to(outlet)
        disabled_calls.install()
        # tqdm and others choose widgets by this name, and widgets need a front end that talks to this process.
        shell.config.pop("IPKernelApp", None)
        # No user types here. Lightning takes a process with prompts for one that is to start the ranks itself.
        for prompt in ("ps1", "ps2", "ps3"):
            vars(sys).pop(prompt, None)
        sampler = Sampler(self.world.rank, self.state.meter, emit, links_of(self.world))
        emit.when_begun(last_words.belong_to)
        self.forks.ours += [capture.original_stderr, last_words.life]
        debugger = RankDebugger(self.world.rank, shell.user_ns, emit)
        guard = Guard(
            shell, self.world, self.state, emit, emitter, capture, outlet, sampler, self.warmup, self.leaving, debugger
        )
        tasks = self.state.part(Tasks)
        Handlers(self.world, resting, self.pinned, self.warmup, guard, emit, debugger, tasks).install(kernel)


def _note_process(log_dir: Path, world: World) -> None:
    """Report this rank's process to the lease: mpiexec, its parent, may be unable to report its end."""
    note = log_dir / rank_file(world.rank, PROCESS)
    files.replace(note, json.dumps({"rank": world.rank, "host": world.host, "pid": world.pid}))
