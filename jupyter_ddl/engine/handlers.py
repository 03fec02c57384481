"""Handles the session's requests. Their outcomes are sent as events; only values are sent back as a reply.

Runs on: every rank. Shell requests are handled one after another in the main thread, control requests in ipykernel's
control thread, which answers while the main thread is blocked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.host_report import report_host
from jupyter_ddl.engine.lookups import Lookups
from jupyter_ddl.engine.profiler import Profiler
from jupyter_ddl.engine.stack_dump import Stacks
from jupyter_ddl.engine.values import Values
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.rank_life import RankAlive, RankReady
from jupyter_ddl.protocol.requests import (
    MESSAGE_TYPE,
    DebugRank,
    Describe,
    DescribeHost,
    EndProfile,
    LookAtStacks,
    LookUp,
    Ping,
    PrepareHorovod,
    ProfileRank,
    Release,
    Request,
    RestHorovod,
    RunCell,
)
from jupyter_ddl.protocol.task_requests import DropArrays, EndTasks, KeepArray, RunTask
from jupyter_ddl.protocol.value_requests import Move

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import RestingLibrary
    from jupyter_ddl.engine.debugging.rank_debugger import RankDebugger
    from jupyter_ddl.engine.devices import Pinned
    from jupyter_ddl.engine.event_log import Journal
    from jupyter_ddl.engine.guard import Guard
    from jupyter_ddl.engine.preload import Warmup
    from jupyter_ddl.engine.tasks import Tasks
    from jupyter_ddl.engine.world import World


class Handlers:
    """The two message handlers of one rank."""

    def __init__(
        self,
        world: World,
        resting: RestingLibrary,
        pinned: Pinned,
        warmup: Warmup,
        guard: Guard,
        emit: Journal,
        debugger: RankDebugger,
        tasks: Tasks,
    ) -> None:
        self._world = world
        self._resting = resting
        self._pinned = pinned
        self._warmup = warmup
        self._guard = guard
        self._emit = emit
        self._debugger = debugger
        self._tasks = tasks
        self._stacks = Stacks(world, guard.task)
        self._profiler = Profiler(world, emit, guard.task)
        # Each channel has a queue of its own in the controller, which drops messages for a rank that has not connected.
        self._ways_open = {"shell": False, "control": False}

    def install(self, kernel: Any) -> None:
        """Add the handlers to ipykernel's."""
        self._lookups = Lookups(kernel.shell, self._world.rank, self._emit)
        self._values = Values(kernel, self._world.rank, self._guard)
        self._tasks.send = kernel.session.send
        self._tasks.rank = self._world.rank
        kernel.shell_handlers[MESSAGE_TYPE] = self.on_shell
        kernel.control_handlers[MESSAGE_TYPE] = self.on_control
        self._warmup.when_done(self._emit)

    async def on_shell(self, stream: Any, identities: Any, message: dict[str, Any]) -> None:
        """Handle what must wait for the rank's turn: a cell, and the life of a library between cells."""
        request = decode(message["content"], Request)
        if isinstance(request, RunCell):
            await self._guard.run(request)
        elif isinstance(request, Describe):
            self._describe("shell")
        elif isinstance(request, PrepareHorovod):
            self._guard.prepare(on_subset=request.on_subset)
        elif isinstance(request, RestHorovod):
            self._resting.rest(request.run, request.after)
        elif isinstance(request, Move):
            self._values.answer(request, stream, identities, message)

    def on_control(self, stream: Any, identities: Any, message: dict[str, Any]) -> None:
        """Handle what must not wait."""
        request = decode(message["content"], Request)
        if isinstance(request, Describe):
            self._describe("control")
        elif isinstance(request, Release):
            self._guard.release(request)
            self._profiler.end("the ranks were released from their run")
        elif isinstance(request, PrepareHorovod):
            self._resting.start_beside(request.run, self._world.communicator, on_subset=request.on_subset)
        elif isinstance(request, Ping):
            self._emit(RankAlive(self._world.rank, self._guard.interrupted))
        elif isinstance(request, LookAtStacks):
            self._emit(self._stacks.answer(request))
        elif isinstance(request, ProfileRank):
            self._profiler.begin(request)
        elif isinstance(request, EndProfile):
            self._profiler.end("it was cancelled", request.look)
        elif isinstance(request, LookUp):
            self._lookups.ask(request)
        elif isinstance(request, DebugRank):
            self._debugger.ask(request)
        elif isinstance(request, RunTask | EndTasks | KeepArray | DropArrays):
            self._tasks.take(request, stream, identities, message)
        elif isinstance(request, DescribeHost):
            report_host(self._world, self._emit)

    def _describe(self, way: str) -> None:
        """Report what this rank is, once requests have come through both channels: from then on none is lost."""
        self._ways_open[way] = True
        if not all(self._ways_open.values()):
            return
        world = self._world
        self._emit(
            RankReady(
                world.rank,
                world.world_size,
                world.local_rank,
                world.host,
                world.pid,
                self._pinned.device,
                self._pinned.threads,
                self._resting.is_used(),
            )
        )
        if self._warmup.report is not None:
            self._emit(self._warmup.report)
