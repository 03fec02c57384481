"""One browser that reads slowly, or never: what waits for it is bounded."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import loops

from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.hub_messages import Control, KernelGone, KernelState, RunNotice, Watch
from jupyter_ddl.server.browser import MAX_CONTROLS, MAX_NOTICES, Browser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest


class Slow:
    """A socket that takes a message when it is told to.

    Attributes:
        sent: what it has taken.
        refused: with which sentences the connection was ended.
    """

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.refused: list[str] = []
        self.takes = asyncio.Event()

    async def send(self, message: str | bytes) -> None:
        await self.takes.wait()
        self.sent.append(json.loads(message if isinstance(message, str) else message.partition(b"\n")[2]))


def with_browser(check: Callable[[Browser, Slow], Awaitable[None]], tails: Any = None) -> None:
    async def run() -> None:
        async def never(_: Control) -> None:
            await asyncio.Event().wait()

        hub: Any = SimpleNamespace(kernels=SimpleNamespace(ask=never), leave=lambda _: None, tails=tails, pool=None)
        slow = Slow()
        browser = Browser(hub, slow.send, slow.refused.append)
        await check(browser, slow)
        browser.close()
        await asyncio.sleep(0)

    loops.run(run())


async def settled() -> None:
    for _ in range(2 * MAX_NOTICES):
        await asyncio.sleep(0)


def test_of_a_kernel_the_newest_waits_and_of_notices_so_many() -> None:
    async def check(browser: Browser, slow: Slow) -> None:
        browser.tell(KernelState("a", 1, None, "run-0"))
        await settled()
        for number in range(1000):
            browser.tell(KernelState("a", 1, None, f"run-{number}"))
            browser.tell(KernelState("b", 1))
            browser.tell(RunNotice("a", f"run-{number}", "running"))
        browser.tell(KernelGone("b"))
        slow.takes.set()
        await settled()
        # The first was on its way.
        assert slow.sent[0]["run"] == "run-0"
        # A state's fault is told after the notice of the run whose it is.
        assert [message.get("run") for message in slow.sent[-2:]] == ["run-999", None]
        assert slow.sent[-1] == {"type": "kernel_gone", "kernel": "b"}
        notices = slow.sent[1:-2]
        assert [message["run"] for message in notices] == [f"run-{at}" for at in range(1000 - MAX_NOTICES, 1000)]

    with_browser(check)


def test_who_asks_on_and_on_without_reading_is_let_go() -> None:
    async def check(browser: Browser, slow: Slow) -> None:
        # One answer is on its way already.
        for number in range(2 * MAX_CONTROLS + 1):
            browser.receive(json.dumps(encode(Control(str(number), "k", "stacks", {}))))
            await asyncio.sleep(0)
        assert slow.refused == []
        browser.receive(json.dumps(encode(Control("one more", "k", "stacks", {}))))
        assert slow.refused == ["A browser may ask for 64 controls at a time. Received: 129."]

    with_browser(check)


class BadRuns:
    """Runs of which some cannot be shown: one cannot be found, one cannot be read, and one makes no batch."""

    def __init__(self) -> None:
        self.unwatched: list[str] = []

    async def watch(self, run: str, _: Callable[[], None]) -> Any:
        if run == "not found":
            raise OverflowError("too large")
        fault = TypeError("an odd line") if run == "not read" else None
        return SimpleNamespace(fault=fault, ended=None, is_ready=True, is_over=True, next=1, batch=self._batch_of(run))

    def unwatch(self, run: str, _: Callable[[], None]) -> None:
        self.unwatched.append(run)

    def _batch_of(self, run: str) -> Callable[..., tuple[int, bytes]]:
        def batch(*_: object) -> tuple[int, bytes]:
            if run == "no batch":
                raise ValueError("no figure")
            return 1, b'{"good": true}'

        return batch


def test_a_run_that_cannot_be_shown_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    tails = BadRuns()

    async def check(browser: Browser, slow: Slow) -> None:
        slow.takes.set()
        for run in ("not found", "not read", "no batch", "good"):
            browser.receive(json.dumps(encode(Watch(run))))
        await until(lambda: len(slow.sent) == 4)
        browser.tell(KernelState("a", 1))
        await until(lambda: len(slow.sent) == 5)
        answers = {message["id"]: message["error"] for message in slow.sent if message.get("type") == "answer"}
        assert answers == {
            f"watch {run}": f"A run's events must be readable. Received: {cause}. See the server's log."
            for run, cause in (
                ("not found", "OverflowError: too large"),
                ("not read", "TypeError: an odd line"),
                ("no batch", "ValueError: no figure"),
            )
        }
        assert {"good": True} in slow.sent
        assert slow.sent[-1]["type"] == "kernel_state"
        assert {"not read", "no batch"} <= set(tails.unwatched)
        assert slow.refused == []

    with_browser(check, tails)
    assert sum("cannot be shown in a browser" in record.message for record in caplog.records) == 3


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it must hold within 10 s")
