"""Runs a script on this rank so that it always ends: by itself, with its own exception, or released.

A rank that raises ends the collectives of its libraries at once, which gives the ranks blocked in one an error within
milliseconds. A `Release` from the terminal does the same, and raises KeyboardInterrupt in Python code.

Runs on: every rank.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import traceback
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from jupyter_ddl.engine import advice, interrupts
from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.error_text import bounded, text_of, words_of
from jupyter_ddl.engine.event_log import Journal
from jupyter_ddl.engine.host_report import host_described
from jupyter_ddl.engine.interrupts import Interrupts
from jupyter_ddl.engine.sampler import Sampler, links_of
from jupyter_ddl.engine.stack_dump import Stacks
from jupyter_ddl.engine.timelines.timeline_file import record_script, recorded
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.run_files import RunFiles
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.protocol.rank_files import EVENTS, STEPS, TIMELINE
from jupyter_ddl.protocol.rank_life import RankReady, RankWarm
from jupyter_ddl.protocol.requests import LookAtStacks, Release, ReportStall

if TYPE_CHECKING:
    from jupyter_ddl.engine.devices import Pinned
    from jupyter_ddl.engine.rank_state import RankState
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.codec import Wire
    from jupyter_ddl.protocol.requests import RunScript
    from jupyter_ddl.protocol.script_pipes import RankPipes

# Whose versions are recorded.
_LIBRARIES = ("tensorflow", "horovod", "keras", "torch")
# A library's shutdown takes milliseconds, unless a peer is frozen: then it waits, and this rank ends without it.
_SHUTDOWN_S = 5.0


class ScriptRank:
    """One rank of a script.

    Args:
        world: this rank's.
        state: this rank's.
        pipes: to the terminal, which logs what comes there.
        request: what is to run.
    """

    def __init__(self, world: World, state: RankState, pipes: RankPipes, request: RunScript) -> None:
        self._world = world
        self._state = state
        self._pipes = pipes
        self._run = request.run
        self._sample_every_s = request.options.sample_every_s
        self._steps = recorded(world.rank, STEPS, request.log_dir, request.options)
        self._events = pipes.open_events()
        self._emit = Journal(world.rank, self._send, RunFiles(world.rank, (EVENTS,), "script"))
        self._emit.begin(request.run, request.log_dir)
        # The terminal reads what Horovod writes of stalls: it is the script's own.
        timeline = recorded(world.rank, TIMELINE, request.log_dir, request.options)
        record_script(timeline)
        state.collectives.begin_cell(
            Turn(request.run, stall_after_s=request.options.stalls.after_s, timeline=timeline, report=self._emit)
        )
        self._sampler = Sampler(world.rank, state.meter, self._emit, links_of(world))
        self._interrupts = Interrupts({})
        self._stacks = Stacks(world, is_own=lambda file: file == self._path)
        self._path = ""
        self._raised_s = 0.0
        self._began_s = time.monotonic()
        # `_send` is called without the journal's lock too.
        self._sending = threading.Lock()

    def describe(self, pinned: Pinned) -> None:
        """Report to the terminal what this rank is, and the first of each host what that has."""
        world, device = self._world, pinned.device
        self._emit(
            RankReady(world.rank, world.world_size, world.local_rank, world.host, world.pid, device, pinned.threads)
        )
        if world.local_rank == 0:
            # Not in a thread: a short script would end before it.
            self._emit(host_described(world))

    def run(self, script: str) -> None:
        """Run the script to its end, whatever that is; report it to the terminal, and end as Python would.

        Raises:
            SystemExit: the script raised it, or anything else, which has been reported then.
        """
        faulthandler.enable()
        path = self._path = str(Path(script).absolute())  # now: the script may change its folder
        for library in _LIBRARIES:
            import_hooks.when_imported(library, self._note_version)
        threading.Thread(target=self._listen, name="jupyter_ddl requests", daemon=True).start()
        try:
            self._sampler.begin(self._run, self._sample_every_s, self._steps)
            self._interrupts.arm(self._run)
            self._state.cells.prepare()
            _run_as_main(path)
            if not self._is_child():
                self._state.cells.conclude()
        except BaseException as error:
            if self._is_child():
                raise
            if isinstance(error, SystemExit):
                self._exited(error)
                raise
            self._raised(error, path)
        if not self._is_child():
            self._finish()

    def _is_child(self) -> bool:
        """Return whether this is a process that the script forked: its end is not the rank's."""
        return os.getpid() != self._world.pid

    def _finish(self) -> None:
        self._interrupts.disarm()
        self._sampler.end()
        self._emit(RankFinished(self._run, self._world.rank, time.time()))

    def _exited(self, error: SystemExit) -> None:
        """End as `sys.exit` asks: with a status other than 0 the other ranks cannot continue."""
        status = _status(error)
        if status == 0:
            self._finish()
            return
        released = self._give_up()
        self._emit(self._failed(error, str(status), (), released=released))
        self._await_shutdown(status)

    def _raised(self, error: BaseException, path: str) -> NoReturn:
        is_effect = self._state.collectives.was_ended_elsewhere(words_of(error))
        released = self._give_up() or is_effect
        # After the others were released: a `__str__` of the user's may take any time.
        text = text_of(error)
        advice.leave_out_our_imports(error)
        told = bounded(_formatted(error, path)).splitlines()
        what_to_write = advice.of(error)
        told += [] if what_to_write is None else [what_to_write]
        self._emit(self._failed(error, text, tuple(told), released=released))
        self._await_shutdown(1)
        if sys.excepthook is not sys.__excepthook__:
            raise error  # the script's own hook gets it
        raise SystemExit(1) from None

    def _give_up(self) -> bool:
        """Release the other ranks; return whether this rank was released itself."""
        self._interrupts.disarm()
        self._raised_s = time.time()
        released = self._interrupts.is_requested(self._run)
        self._state.collectives.release()
        self._sampler.end()
        return released

    def _await_shutdown(self, status: int) -> None:
        """Wait until collectives have ended: MPI must not be finalised before. End the process where they do not."""
        if not self._state.collectives.resting.has_shut_down(_SHUTDOWN_S):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _failed(self, error: BaseException, text: str, told: tuple[str, ...], *, released: bool) -> RankFailed:
        world = self._world
        return RankFailed(
            self._run, world.rank, world.host, type(error).__name__, text, told, released=released, at_s=self._raised_s
        )

    def _listen(self) -> None:
        for request in self._pipes.requests():
            if isinstance(request, Release):
                self._interrupts.request(self._run, request.reason)
                self._state.collectives.release()
            elif isinstance(request, LookAtStacks):
                self._send(self._stacks.answer(request))
            elif isinstance(request, ReportStall):
                self._emit(self._state.collectives.resting.with_known_ranks(request.stalled, self._world))

    def _note_version(self, library: ModuleType) -> None:
        """Report the version of a library that the script has imported."""
        version = getattr(library, "__version__", None)
        if isinstance(version, str) and not self._is_child():
            seconds = round(time.monotonic() - self._began_s, 2)
            self._send(RankWarm(self._world.rank, {library.__name__: version}, seconds))

    def _send(self, message: Wire) -> None:
        line = as_line(message)
        with self._sending:
            while line:
                line = line[os.write(self._events, line) :]


def _run_as_main(path: str) -> None:
    """Run the script of an absolute path as the module `__main__`.

    It stays so: the script's own threads and exit handlers may need it.

    runpy.run_path would put back the module `__main__` at the end, and the path as given in its tracebacks.
    """
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __loader__=SourceFileLoader("__main__", path), __cached__=None)
    sys.modules["__main__"] = main
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, vars(main))  # noqa: S102  the user's script: to run it is what we are for


def _status(error: SystemExit) -> int:
    """Return the exit status that Python would end with."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _formatted(error: BaseException, path: str) -> str:
    """Return an exception as Python prints it, without our own frames, for a script of an absolute path."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    told = traceback.TracebackException(type(error), error, trace)
    told.stack[:] = [frame for frame in told.stack if frame.filename != interrupts.__file__]
    return "".join(told.format())
