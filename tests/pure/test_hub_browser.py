"""One browser that reads slowly, or never: what waits for it is bounded."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import loops

from jupyter_ddl.hub_messages import Control, KernelGone, KernelState, RunNotice
from jupyter_ddl.server.browser import MAX_CONTROLS, MAX_NOTICES, Browser
from jupyter_ddl.wire import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


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
        self.sent.append(json.loads(message))


def with_browser(check: Callable[[Browser, Slow], Awaitable[None]]) -> None:
    async def run() -> None:
        async def never(_: Control) -> None:
            await asyncio.Event().wait()

        hub: Any = SimpleNamespace(kernels=SimpleNamespace(ask=never), leave=lambda _: None)
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
        assert [message.get("run") for message in slow.sent[:3]] == ["run-0", "run-999", None]
        assert slow.sent[2] == {"type": "kernel_gone", "kernel": "b"}
        assert [message["run"] for message in slow.sent[3:]] == [f"run-{at}" for at in range(1000 - MAX_NOTICES, 1000)]

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
