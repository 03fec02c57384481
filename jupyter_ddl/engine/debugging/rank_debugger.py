"""Takes a page's requests to the debugger of this rank, in a thread of its own, and says whether the rank is held.

A page that asks for nothing for `LEASE_S` seconds is gone, with its tab, its kernel or its server: the rank then runs
without breakpoints.

Runs on: every rank. `ask` and `let_go` are called in ipykernel's control thread, `tracing` in the main thread.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import jupyter_ddl
from jupyter_ddl.engine.debugging.cell_sources import CellSources
from jupyter_ddl.engine.debugging.local_answers import LocalAnswers, is_users
from jupyter_ddl.engine.debugging.page_events import PageEvents
from jupyter_ddl.engine.debugging.pydevd_link import PydevdLink
from jupyter_ddl.protocol.events import RankHeld
from jupyter_ddl.protocol.rank_answers import RankDebugged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jupyter_ddl.protocol.requests import DebugRank

    Answered = Callable[[dict[str, Any]], None]

LEASE_S = 60.0
LET_GO_S = 2.0
_TICK_MS = 500
# Not `terminate`, which ends the process.
_FORWARDED = (
    *("continue", "next", "stepIn", "stepOut", "pause", "threads", "stackTrace", "scopes", "variables", "evaluate"),
    *("setVariable", "setExpression", "setExceptionBreakpoints", "exceptionInfo", "completions"),
)


class RankDebugger:
    """The debugger of one rank.

    Args:
        rank: its number.
        namespace: the user's.
        emit: sends events.
    """

    def __init__(
        self, rank: int, namespace: Mapping[str, Any], emit: Callable[[RankDebugged | RankHeld], None]
    ) -> None:
        self._rank = rank
        self._emit = emit
        self._cells = CellSources()
        self._local = LocalAnswers(self._cells, namespace)
        self._asked: SimpleQueue[DebugRank] = SimpleQueue()
        self._wakes: tuple[int, int] | None = None
        self._link: PydevdLink | None = None
        self._is_attached = False
        self._asked_s = 0.0
        self._run = ""
        # When the run was released: what holds the rank from then on lets it go.
        self._released_s: float | None = None
        # The code that was held has been left, by an exception.
        self._is_left = threading.Event()
        # Number of a request to pydevd -> what takes its answer.
        self._awaited: dict[int, Answered] = {}
        self._breakpoints: dict[str, list[dict[str, Any]]] = {}
        self._held: dict[int, RankHeld] = {}
        self._events = PageEvents(self._reply)

    def ask(self, request: DebugRank) -> None:
        """Take a request and return at once; its answer is a RankDebugged."""
        self._asked.put(request)
        if self._wakes is None:
            self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            threading.Thread(target=self._serve, name="jupyter_ddl debugger", daemon=True).start()
        self._wake()

    def begin(self, run: str) -> None:
        """Note the run whose code comes next."""
        self._run = run
        self._released_s = None

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Let breakpoints hold the thread that enters the block, where a page debugs this rank."""
        if self._link is None or not self._is_attached:
            yield
            return
        try:
            with self._link.tracing():
                yield
        finally:
            if self._held:
                self._is_left.set()
                self._wake()

    def let_go(self) -> None:
        """Hold the rank no more until the next run begins: this one was released.

        A rank that is held is left to the interrupt that follows. Where that is lost, it runs on after `LET_GO_S`.
        """
        self._released_s = monotonic()
        if self._wakes is not None:
            self._wake()

    def _wake(self) -> None:
        assert self._wakes is not None
        with suppress(BlockingIOError):
            # A pipe that is full wakes too.
            os.write(self._wakes[1], b".")

    def _serve(self) -> None:
        assert self._wakes is not None
        while True:
            # Not `select`, which takes no descriptor above 1,023: a cell may have many files open.
            watched = select.poll()
            watched.register(self._wakes[0], select.POLLIN)
            if self._link is not None:
                watched.register(self._link, select.POLLIN)
            ready = [descriptor for descriptor, _ in watched.poll(None if self._is_idle() else _TICK_MS)]
            try:
                if self._wakes[0] in ready:
                    os.read(self._wakes[0], 1 << 12)
                if self._link is not None and self._link.fileno() in ready:
                    for message in self._link.read():
                        self._take(message)
                self._take_requests()
                self._keep_time()
            except Exception:  # noqa: BLE001  a message of a form that we do not know: the next one finds this thread alive
                sys.excepthook(*sys.exc_info())

    def _is_idle(self) -> bool:
        return not self._is_attached and not self._events.are_awaited

    def _take_requests(self) -> None:
        with suppress(Empty):
            while True:
                request = self._asked.get_nowait()
                self._asked_s = monotonic()
                self._answer(request)

    def _keep_time(self) -> None:
        """Let the rank go where it is to end, or its page is gone; answer pages that have waited for events."""
        is_left = self._is_left.is_set()
        if is_left or (self._released_s is not None and monotonic() - self._released_s > LET_GO_S):
            self._is_left.clear()
            for thread in list(self._held):
                self._continue(thread, is_left=is_left)
        if self._is_attached and monotonic() - self._asked_s > LEASE_S:
            self._detach(lambda _: None)
        self._events.answer(is_attached=self._is_attached)

    def _answer(self, request: DebugRank) -> None:
        command, arguments = str(request.message.get("command")), request.message.get("arguments") or {}
        if command == "events":
            self._events.ask(request)
        elif command == "debugInfo":
            threads = list(self._held)
            self._reply(
                request, self._local.info(is_started=self._is_attached, breakpoints=self._breakpoints, held=threads)
            )
        elif command == "initialize":
            self._attach(request, arguments)
        elif self._local.knows(command):
            self._answer_locally(request, command, arguments)
        elif not self._is_attached or self._link is None:
            self._refuse(
                request, "A rank is debugged once a page has begun it. Received: " + command + ". Begin again."
            )
        elif command in ("disconnect", "terminate"):
            self._detach(lambda _: self._reply(request, {}))
        elif command == "attach":
            self._forward(request, "attach", _attach_arguments(), self._when_attached)
        elif command == "setBreakpoints":
            self._set_breakpoints(request, arguments)
        elif command in _FORWARDED:
            self._forward(request, command, arguments, self._as_shown)
        else:
            self._refuse(request, f"A debugger's request is one of the protocol's. Received: {command[:80]}.")

    def _answer_locally(self, request: DebugRank, command: str, arguments: dict[str, Any]) -> None:
        try:
            self._reply(request, self._local.to(command, arguments))
        except (OSError, LookupError) as error:
            self._refuse(request, str(error))

    def _attach(self, request: DebugRank, arguments: dict[str, Any]) -> None:
        try:
            self._link = self._link or PydevdLink()
        except (ImportError, AttributeError) as error:
            self._refuse(
                request,
                "A rank is debugged by debugpy, in its own Python environment. "
                f"Received: {error}, on rank {self._rank}. There: pip install debugpy.",
            )
            return
        self._is_attached = True
        # Tracing is of the main thread alone; pydevd's own thread list leaves these out.
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.pydev_do_not_trace = thread.is_pydev_daemon_thread = True  # type: ignore[attr-defined]
        self._forward(request, "initialize", arguments, lambda answer: answer)

    def _when_attached(self, answer: dict[str, Any]) -> dict[str, Any]:
        assert self._link is not None
        self._link.send("configurationDone", {})
        return answer

    def _detach(self, then: Answered) -> None:
        """Remove all breakpoints, and let the rank run."""
        assert self._link is not None
        self._awaited[self._link.send("disconnect", {"restart": False, "terminateDebuggee": False})] = then
        self._is_attached = False
        self._breakpoints.clear()
        for thread in list(self._held):
            self._resumed(thread)
        self._cells.remove()

    def _set_breakpoints(self, request: DebugRank, arguments: dict[str, Any]) -> None:
        shown = str(arguments["source"]["path"])

        def note(answer: dict[str, Any]) -> dict[str, Any]:
            found = answer.get("body", {}).get("breakpoints", [])
            for one in found:
                one.setdefault("source", {})["path"] = shown
            self._breakpoints[shown] = [{"line": one["line"]} for one in found if "line" in one]
            return answer

        source = {**arguments["source"], "path": self._cells.compiled(shown)}
        self._forward(request, "setBreakpoints", {**arguments, "source": source}, note)

    def _as_shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Name cells as JupyterLab does, and leave IPython's own variables out."""
        body = answer.get("body") or {}
        for frame in body.get("stackFrames", []):
            source = frame.get("source") or {}
            source["path"] = self._cells.shown(source.get("path", ""))
        if "variables" in body:
            body["variables"] = [one for one in body["variables"] if is_users(one["name"])]
        return answer

    def _forward(
        self,
        request: DebugRank,
        command: str,
        arguments: dict[str, Any],
        change: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        assert self._link is not None
        number = self._link.send(command, arguments)
        self._awaited[number] = lambda answer: self._send(request, change(answer))

    def _take(self, message: dict[str, Any]) -> None:
        """Take a message of pydevd's."""
        if message["type"] == "response":
            answered = self._awaited.pop(message["request_seq"], None)
            if answered is not None:
                answered(message)
        elif message["type"] == "event":
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        thread = event.get("body", {}).get("threadId")
        if event["event"] == "stopped":
            assert self._link is not None
            if self._released_s is not None or not self._is_attached:
                self._continue(thread)
                return
            number = self._link.send("stackTrace", {"threadId": thread, "levels": 1})
            self._awaited[number] = lambda answer: self._stopped(event, answer)
            return
        if event["event"] == "continued":
            self._resumed(thread)
        self._events.add(event)

    def _stopped(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        frames = answer.get("body", {}).get("stackFrames") or [{}]
        file = frames[0].get("source", {}).get("path", "")
        thread = event["body"]["threadId"]
        held = RankHeld(self._run, self._rank, time(), file, frames[0].get("line", 0), frames[0].get("name", ""))
        self._held[thread] = held
        self._emit(held)
        self._events.add(event)

    def _resumed(self, thread: int) -> None:
        if self._held.pop(thread, None) is not None and not self._held:
            self._emit(RankHeld(self._run, self._rank, time()))

    def _continue(self, thread: int, *, is_left: bool = False) -> None:
        """Have a thread run on; of code that was left pydevd reports nothing by itself, and would hold the next."""
        assert self._link is not None
        self._link.send("continue", {"threadId": thread})
        if is_left:
            self._note(
                {"type": "event", "event": "continued", "body": {"threadId": thread, "allThreadsContinued": True}}
            )

    def _reply(self, request: DebugRank, body: dict[str, Any]) -> None:
        self._send(request, {"success": True, "body": body})

    def _refuse(self, request: DebugRank, why: str) -> None:
        self._send(request, {"success": False, "message": why, "body": {}})

    def _send(self, request: DebugRank, answer: dict[str, Any]) -> None:
        message = request.message
        own = {"type": "response", "command": message.get("command"), "request_seq": message.get("seq", 0), "seq": 0}
        self._emit(RankDebugged(request.look, self._rank, {**answer, **own}))


def _attach_arguments() -> dict[str, Any]:
    """Return what pydevd is to do: only the user's code, and no other thread is held with one that is."""
    return {
        "justMyCode": True,
        "stopAllThreadsOnSuspend": False,
        "steppingResumesAllThreads": False,
        # A step past a cell's last line ends in none of our frames.
        "rules": [{"path": str(Path(jupyter_ddl.__file__).parent), "include": False}],
    }
