"""Firefox, driven by WebDriver BiDi, which it speaks by itself.

Playwright's own driver of an installed Firefox sends a command that Debian's does not know
(emulation.setMediaFeaturesOverride).
Source: https://www.w3.org/TR/webdriver-bidi/
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import websocket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIREFOX = "/usr/bin/firefox-esr"
_ADDRESS = re.compile(r"ws://127\.0\.0\.1:\d+")
_UP_S = 60
# But for the focus they keep a new profile from the network.
_PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "captivedetect.canonicalURL": "",
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.getAddons.cache.enabled": False,
    "extensions.systemAddon.update.enabled": False,
    # The window has the focus, though there is no desktop that gives it: keys press buttons.
    "focusmanager.testmode": True,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.enabled": False,
}


class FirefoxPage:
    """One tab. What a page asks is answered in JSON."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(f"{address}/session", timeout=90, suppress_origin=True)
        self._sent = 0
        self.raised: list[str] = []
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["log.entryAdded"])
        # The tab that Firefox opens by itself never has the focus: keys would press no button.
        self.context: str = self._ask("browsingContext.create", type="tab", background=False)["context"]

    def close(self) -> None:
        self._socket.close()

    def size(self, width: int, height: int, ratio: float = 1.0) -> None:
        viewport = {"width": width, "height": height}
        self._ask("browsingContext.setViewport", context=self.context, viewport=viewport, devicePixelRatio=ratio)

    def open(self, url: str) -> None:
        self._ask("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def ask(self, code: str) -> Any:
        """Return the value of an expression, or of its promise."""
        # JSON of a whole: BiDi describes each value with its type.
        wrapped = f"(async () => JSON.stringify((await ({code})) ?? null))()"
        found = self._ask("script.evaluate", expression=wrapped, target={"context": self.context}, awaitPromise=True)
        if found["type"] == "exception":
            raise AssertionError(f"{code}: {found['exceptionDetails']['text']}")
        return json.loads(found["result"]["value"])

    def wait_for(self, code: str, timeout_s: float = 60) -> Any:
        """Wait until an expression is true; return it."""
        until_s = time.monotonic() + timeout_s
        while not (found := self.ask(code)):
            assert time.monotonic() < until_s, f"did not become true: {code}"
            time.sleep(0.05)
        return found

    def click(self, selector: str) -> None:
        """Click where an element is, as a hand does: what covers it gets the click."""
        one = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{one} !== null")
        self.ask(f"void {one}.scrollIntoView({{ block: 'nearest' }})")
        # Once it has stood still for two frames: what the page loads meanwhile moves it.
        rect = f"{one}?.getBoundingClientRect()"
        middle = f"(box => box?.width ? [box.x + box.width / 2, box.y + box.height / 2] : null)({rect})"
        frames = "await new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)))"
        box = self.wait_for(
            f"(async () => {{ const before = {middle}; {frames}; const after = {middle}; "
            "return `${before}` === `${after}` ? after : null; })()"
        )
        at = {"type": "pointerMove", "x": round(box[0]), "y": round(box[1])}
        actions = [at, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._act({"type": "pointer", "id": "mouse", "actions": actions})

    def press(self, *keys: str) -> None:
        """Press keys one after the other, by their WebDriver characters."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keys", "actions": actions})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("browsingContext.captureScreenshot", context=self.context)["data"]))

    def _act(self, source: dict[str, Any]) -> None:
        self._ask("input.performActions", context=self.context, actions=[source])

    def _ask(self, method: str, **params: Any) -> Any:
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._sent:
                assert message["type"] == "success", f"{method}: {message}"
                return message["result"]
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        entry = event.get("params", {})
        if entry.get("type") == "javascript" and entry.get("level") == "error":
            self.raised.append(str(entry.get("text")))


@contextmanager
def firefox(folder: Path) -> Iterator[FirefoxPage]:
    """Run Firefox with a profile of its own in a folder that is there."""
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _PREFERENCES.items()]
    (folder / "user.js").write_text("".join(lines))
    argv = [FIREFOX, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(folder), "about:blank"]
    log = folder / "firefox.log"
    with log.open("w") as out, subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            with closing(FirefoxPage(_address(process, log))) as page:
                yield page
        finally:
            process.terminate()
            process.wait(timeout=_UP_S)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until_s = time.monotonic() + _UP_S
    while (found := _ADDRESS.search(log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until_s, f"Firefox does not listen: {log.read_text()}"
        time.sleep(0.05)
    return found.group()
