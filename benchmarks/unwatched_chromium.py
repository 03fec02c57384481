"""Chromium whose page nobody inspects while it is measured.

As long as Playwright is connected, the page's main thread tells it of every message of a WebSocket and every change of
the document: 8.6 ms of CPU an update of the dashboard with it, 6.6 without, on the same page one minute later. So
Playwright opens the page and leaves, and Chromium's own trace is asked for at the browser, not at the page.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import websocket
from lab import CHROMIUM, FLAGS
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page, ViewportSize

VIEWPORT: ViewportSize = {"width": 1400, "height": 1200}
# A page in a window that is not in front would be drawn seldom, and its timers slowed down.
IN_FRONT = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
DEADLINE_S = 60.0


class UnwatchedChromium:
    """A Chromium of one page, with a folder of its own."""

    def __init__(self, profile: Path) -> None:
        self._at = DevTools(profile)

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Let Playwright drive the page, and leave it open afterwards."""
        with sync_playwright() as playwright:
            browser = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{self._at.port}")
            page = browser.contexts[0].pages[0]
            page.set_viewport_size(VIEWPORT)
            yield page
            browser.close()

    def trace(self, seconds: float, categories: list[str]) -> list[dict[str, Any]]:
        """Return the events of Chromium's trace of so many seconds."""
        return self._at.trace(seconds, categories)


class DevTools:
    """Chromium's own socket for those who look at the browser as a whole."""

    def __init__(self, profile: Path) -> None:
        port, self._path = _active_port(profile)
        self.port = int(port)
        self._next_id = 0

    def trace(self, seconds: float, categories: list[str]) -> list[dict[str, Any]]:
        """Return the events of so many seconds."""
        events: list[dict[str, Any]] = []
        socket = websocket.create_connection(
            f"ws://127.0.0.1:{self.port}{self._path}", timeout=seconds + DEADLINE_S, suppress_origin=True
        )
        try:
            self._send(socket, "Tracing.start", {"traceConfig": {"includedCategories": categories}})
            time.sleep(seconds)
            self._send(socket, "Tracing.end", {})
            while (message := json.loads(socket.recv())).get("method") != "Tracing.tracingComplete":
                if "error" in message:
                    raise RuntimeError(f"Chromium refused to trace: {message['error']}")
                events += message.get("params", {}).get("value", [])
        finally:
            socket.close()
        return events

    def _send(self, socket: websocket.WebSocket, method: str, params: dict[str, Any]) -> None:
        self._next_id += 1
        socket.send(json.dumps({"id": self._next_id, "method": method, "params": params}))


@contextmanager
def unwatched_chromium(profile: Path) -> Iterator[UnwatchedChromium]:
    """Start it with an empty page, and end it."""
    # The size that Playwright gives a page goes with it.
    size = f"--window-size={VIEWPORT['width']},{VIEWPORT['height']}"
    own = ("--headless", "--remote-debugging-port=0", f"--user-data-dir={profile}", size)
    program = [CHROMIUM, *own, *FLAGS, *IN_FRONT]
    profile.mkdir()
    with (profile / "chromium.log").open("wb") as log:
        process = subprocess.Popen([*program, "about:blank"], stdout=log, stderr=log)
    try:
        yield UnwatchedChromium(profile)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _active_port(profile: Path) -> tuple[str, str]:
    """Wait until Chromium has written where it listens: the port, and the path of the browser's socket."""
    file = profile / "DevToolsActivePort"
    until_s = time.monotonic() + DEADLINE_S
    while not (file.is_file() and len(lines := file.read_text().splitlines()) == 2):
        if time.monotonic() > until_s:
            raise TimeoutError(f"Chromium did not start: {(profile / 'chromium.log').read_text()[-500:]}")
        time.sleep(0.1)
    return lines[0], lines[1]
