"""Serves one browser: its requests, and what waits to be sent, which is bounded however slowly it reads.

One message is on its way at a time. Only a kernel's newest state waits, and a run's thinned history: a slow reader is
skipped forward.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import Answer, Control, RunLabelled, RunNotice, Taken, Watch, from_browser
from jupyter_ddl.server.tails import INTERVAL_S
from jupyter_ddl.views.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_ddl.protocol.hub_messages import KernelGone, KernelState
    from jupyter_ddl.server.hub import Hub
    from jupyter_ddl.server.tail import Tail
    from jupyter_ddl.views.event_batches import Entry

_log = logging.getLogger("jupyter_ddl")
MAX_WATCHES = 32
MAX_CONTROLS = 64
MAX_NOTICES = 256


@dataclass
class _Watching:
    """A run that the browser watches.

    Attributes:
        tail: its events; None while it is being found.
        next: the number of the first event that was not sent.
        is_drawn: the browser has received all that it was sent.
        is_new: nothing was sent yet: the first message goes out even if it is empty.
        is_end_sent: it knows how the run ended, where no event says so.
        spread: of many ranks, the samples that wait for their turn.
        sent_s: when it was sent events last, by the loop's clock.
    """

    next: int
    tail: Tail | None = None
    is_drawn: bool = True
    is_new: bool = True
    is_end_sent: bool = False
    spread: Spread[Entry] = field(default_factory=Spread)
    sent_s: float = 0.0

    @property
    def lacks_end(self) -> bool:
        """Whether the run has ended and the browser does not know how."""
        return self.tail is not None and self.tail.ended is not None and not self.is_end_sent


class Browser:
    """One WebSocket's messages, in both directions. All methods are called in the server's loop.

    Args:
        hub: the server's.
        send: sends a text or a binary message; done when the socket has taken it.
        refuse: ends the connection, with a sentence.
    """

    def __init__(self, hub: Hub, send: Callable[[str | bytes], Awaitable[None]], refuse: Callable[[str], None]) -> None:
        self._hub = hub
        self._send = send
        self._refuse = refuse
        self._states: dict[str, KernelState | KernelGone] = {}
        self._notices: deque[RunNotice | RunLabelled] = deque(maxlen=MAX_NOTICES)
        self._answers: deque[Answer] = deque()
        self._controls = 0
        self._watching: dict[str, _Watching] = {}
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._begin(self._pump())

    def close(self) -> None:
        """Release it. Safe to call twice."""
        self._hub.leave(self)
        for run in list(self._watching):
            self._unwatch(run)
        for task in self._tasks:
            task.cancel()

    def tell(self, message: KernelState | KernelGone | RunNotice | RunLabelled) -> None:
        """Queue a kernel's state."""
        if isinstance(message, RunNotice | RunLabelled):
            self._notices.append(message)
        else:
            self._states[message.kernel] = message
        self._wake.set()

    def receive(self, data: str | bytes) -> None:
        """Handle a message of the browser, which may be anything."""
        try:
            message = from_browser(data)
        except ValueError as error:
            self._refuse(str(error))
            return
        if isinstance(message, Control):
            self._control(message)
        elif isinstance(message, Watch):
            self._watch(message)
        elif isinstance(message, Taken):
            watching = self._watching.get(message.run)
            if watching is not None and message.next >= watching.next:
                watching.is_drawn = True
                self._end_if_over(message.run, watching)
                self._wake.set()
        else:
            self._unwatch(message.run)

    def _control(self, control: Control) -> None:
        # Until its answer has been sent: a browser that does not read cannot ask for ever more.
        self._controls += 1
        if self._controls > 2 * MAX_CONTROLS:
            self._refuse(f"A browser may ask for {MAX_CONTROLS} controls at a time. Received: {self._controls}.")
        elif self._controls > MAX_CONTROLS:
            error = f"A browser may ask for {MAX_CONTROLS} controls at a time. Received: one more. Wait for an answer."
            self._answer(Answer(control.id, error=error))
        else:
            self._begin(self._ask(control))

    async def _ask(self, control: Control) -> None:
        self._answer(await self._hub.kernels.ask(control))

    def _answer(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._wake.set()

    def _watch(self, watch: Watch) -> None:
        self._unwatch(watch.run)
        if len(self._watching) >= MAX_WATCHES:
            self._refuse(f"A browser may watch {MAX_WATCHES} runs at a time. Received: one more.")
            return
        watching = self._watching[watch.run] = _Watching(max(0, watch.next))
        self._begin(self._find(watch.run, watching))

    async def _find(self, run: str, watching: _Watching) -> None:
        try:
            tail = await self._hub.tails.watch(run, self._wake.set)
        except Exception as error:  # noqa: BLE001
            # As in `_batch`: without an answer the page would wait for ever.
            self._give_up(run, error)
            return
        if self._watching.get(run) is not watching:
            # Unwatched meanwhile.
            self._hub.tails.unwatch(run, self._wake.set)
        elif tail is None:
            del self._watching[run]
            self._refuse_watch(
                run,
                f"A run must be there to be watched. Received: {run[:80]!r}, which is not. It may have been deleted.",
            )
        else:
            watching.tail = tail
            self._wake.set()

    def _unwatch(self, run: str) -> None:
        watching = self._watching.pop(run, None)
        if watching is not None and watching.tail is not None:
            self._hub.tails.unwatch(run, self._wake.set)

    def _end_if_over(self, run: str, watching: _Watching) -> None:
        """Drop a run that is over, once the browser has all of it."""
        tail = watching.tail
        if tail is None or watching.lacks_end:
            return
        if tail.is_over and tail.is_ready and tail.next <= watching.next:
            self._unwatch(run)

    async def _pump(self) -> None:
        """Send what waits, one message after the other."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (message := await self._next_message()) is not None:
                await self._send(message)

    async def _next_message(self) -> str | bytes | None:
        if self._answers:
            self._controls -= 1
            return as_line(self._answers.popleft()).decode()
        # Before the states, so that a kernel's fault is known as that of a run, whose notice says more.
        if self._notices:
            return as_line(self._notices.popleft()).decode()
        if self._states:
            return as_line(self._states.pop(next(iter(self._states)))).decode()
        for run, watching in list(self._watching.items()):
            tail = watching.tail
            if tail is not None and tail.fault is not None:
                self._give_up(run, tail.fault)
                return await self._next_message()
            if tail is None or not tail.is_ready or not watching.is_drawn:
                continue
            if tail.next > watching.next or watching.is_new or watching.lacks_end:
                return await self._batch(run, watching, tail)
        return None

    async def _batch(self, run: str, watching: _Watching, tail: Tail) -> str | bytes | None:
        # The others first, next time.
        self._watching[run] = self._watching.pop(run)
        watching.is_drawn = watching.is_new = False
        # Requested first: events that come until then are in the message.
        ended = tail.ended
        loop = asyncio.get_running_loop()
        # A browser that is slow has more ranks' samples in each message.
        turns = round((loop.time() - watching.sent_s) / INTERVAL_S)
        watching.sent_s = loop.time()
        batch = partial(tail.batch, watching.next, watching.spread, turns)
        try:
            following, content = await loop.run_in_executor(self._hub.pool, batch)
        except Exception as error:  # noqa: BLE001
            # Whatever a run's files hold, the others' events and the kernels' states must still be sent: this task
            # sends all.
            self._give_up(run, error)
            return await self._next_message()
        watching.next = following
        head = {"run": run}
        if ended is not None:
            head["ended"] = ended
            watching.is_end_sent = True
        return json.dumps(head).encode() + b"\n" + content

    def _give_up(self, run: str, error: Exception) -> None:
        """Stop watching a run that cannot be shown, and report it."""
        _log.error("jupyter_ddl: the run %s cannot be shown in a browser.", run, exc_info=error)
        self._unwatch(run)
        self._refuse_watch(
            run, f"A run's events must be readable. Received: {type(error).__name__}: {error}. See the server's log."
        )

    def _refuse_watch(self, run: str, error: str) -> None:
        self._controls += 1
        self._answer(Answer(f"watch {run[:80]}", error=error))

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
