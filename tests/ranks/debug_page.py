"""What JupyterLab asks the debugger of a rank, without JupyterLab."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

WAIT_S = 60.0


class DebugPage:
    """A page that debugs one rank.

    Attributes:
        thread: the thread that was held last.
    """

    def __init__(self, session: Session, rank: int) -> None:
        self._session = session
        self._rank = rank
        self._seq = 0
        self._after = -1
        self.thread = 0

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer's body; the request must be done."""
        answer = self.answer(command, **arguments)
        assert answer["success"], answer
        assert answer["request_seq"] == self._seq
        body: dict[str, Any] = answer.get("body") or {}
        return body

    def answer(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer."""
        self._seq += 1
        message = {"type": "request", "seq": self._seq, "command": command, "arguments": arguments}
        return self._session.debug(self._rank, message)

    def begin(self) -> None:
        """Begin as JupyterLab does when its button is pressed."""
        self.events()
        assert not self.ask("debugInfo")["isStarted"]
        self.ask("initialize", clientID="jupyterlab", adapterID="python3", pathFormat="path", linesStartAt1=True)
        self.ask("attach")

    def set_breakpoints(self, cell: str, *lines: int) -> list[int]:
        """Return the lines of a cell at which the rank will be held."""
        path = self.ask("dumpCell", code=cell)["sourcePath"]
        at = [{"line": line} for line in lines]
        found = self.ask("setBreakpoints", source={"path": path}, breakpoints=at, sourceModified=False)["breakpoints"]
        assert all(one["verified"] and one["source"]["path"] == path for one in found), found
        return [one["line"] for one in found]

    def events(self) -> list[dict[str, Any]]:
        """Return the events since the last call; waits for some."""
        found = self.ask("events", after=self._after)
        self._after = found["after"]
        events: list[dict[str, Any]] = found["events"]
        return events

    def wait_until_held(self) -> dict[str, Any]:
        """Return the frame in which the rank is held."""
        until_s = time.monotonic() + WAIT_S
        while time.monotonic() < until_s:
            held = [event for event in self.events() if event["event"] == "stopped"]
            if held:
                self.thread = held[-1]["body"]["threadId"]
                return self.frames()[0]
        raise AssertionError("the rank was not held")

    def frames(self) -> list[dict[str, Any]]:
        """Return the frames of the thread that is held, the innermost first."""
        frames: list[dict[str, Any]] = self.ask("stackTrace", threadId=self.thread)["stackFrames"]
        return frames

    def variables(self, frame: dict[str, Any]) -> dict[str, str]:
        """Return the local variables of a frame: name -> value."""
        scopes = self.ask("scopes", frameId=frame["id"])["scopes"]
        reference = scopes[0]["variablesReference"]
        return {one["name"]: one["value"] for one in self.ask("variables", variablesReference=reference)["variables"]}

    def go(self, command: str = "continue") -> None:
        """Let the rank run on, or one step."""
        self.ask(command, threadId=self.thread)


class InBackground:
    """A cell that runs while the test does something else."""

    def __init__(self, session: Session, cell: str, **options: Any) -> None:
        self._result: Any = None
        # As IPython passes it to the magic.
        body = cell.removeprefix("%%distributed\n") + "\n"
        self._thread = threading.Thread(target=self._run, args=(session, body, options), daemon=True)
        self._thread.start()

    def _run(self, session: Session, body: str, options: dict[str, Any]) -> None:
        try:
            self._result = session.run(body, above=1, **options)
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self._result = error

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def result(self) -> Any:
        """Return its result, or what it raised."""
        self._thread.join(WAIT_S)
        assert not self.runs, "the cell has not ended"
        return self._result
