"""A real Jupyter kernel, driven as a front end drives it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager

# The types by which what shows how the run trains is known.
FIGURES = {"application/vnd.jupyter.widget-view+json", "image/svg+xml"}


@dataclass
class Output:
    """One output under a cell, as it is now."""

    kind: str
    data: dict[str, Any]
    display_id: str | None = None


@dataclass
class Cell:
    """An executed cell and what a front end would show under it."""

    kernel: Kernel = field(repr=False)
    message: str
    began_s: float
    outputs: list[Output] = field(default_factory=list)
    error: dict[str, Any] | None = None
    seconds: float | None = None
    shown_s: list[float] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """All text under the cell, but for that of the dashboard and its picture."""
        shown = (output.data for output in self.outputs if not FIGURES & output.data.keys())
        return "\n".join(data.get("text/plain", "") for data in shown)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def told(self) -> str:
        """What stands in the cell's error output; empty without one."""
        return "\n".join(self.error["traceback"]) if self.error else ""

    def wait(self, timeout_s: float = 60) -> Cell:
        self.kernel.pump(lambda: self.seconds is not None, timeout_s)
        if self.error is not None:
            self.kernel.wait_until_it_takes_cells()
        return self

    def wait_for(self, text: str, timeout_s: float = 60) -> Cell:
        """Wait until text is under the cell."""
        self.kernel.pump(lambda: text in self.text, timeout_s)
        return self


class Kernel:
    """A running kernel with the extension loaded.

    Args:
        cwd: its working folder; by default this process's.
    """

    def __init__(self, cwd: str | None = None) -> None:
        self._manager = KernelManager(kernel_name="python3")
        # An older IPython gives two cells one number where an interrupt comes before the first has ended, and its
        # history then prints an error under the next.
        no_history = ["--HistoryManager.enabled=False"]
        self._manager.start_kernel(extra_arguments=no_history, **({} if cwd is None else {"cwd": cwd}))
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        self._cells: dict[str, Cell] = {}
        assert self.execute("%load_ext jupyter_ddl").error is None

    def stop(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel()
        self._manager.cleanup_resources()

    def interrupt(self) -> None:
        """What the stop button does."""
        self._manager.interrupt_kernel()

    def send(self, code: str) -> Cell:
        """Execute without waiting."""
        message = self._client.execute(code)
        cell = self._cells[message] = Cell(self, message, time.monotonic())
        return cell

    def execute(self, code: str, timeout_s: float = 60) -> Cell:
        return self.send(code).wait(timeout_s)

    def wait_until_it_takes_cells(self) -> None:
        """Wait until a cell that is sent now is executed.

        After a cell that fails ipykernel 6 drops what it receives before its event loop's next turn, without a word; it
        may say that it is idle before that (`Kernel._abort_queues`). A person is slower.
        """
        self._client.kernel_info(reply=True, timeout=60)

    def run(self, code: str, options: str = "", timeout_s: float = 60) -> Cell:
        """Execute on the ranks."""
        return self.execute(f"%%distributed {options}\n{code}", timeout_s)

    def complete(self, code: str) -> list[str]:
        """What the last line may become when Tab is pressed at its end."""
        content = self._client.complete(code, len(code), reply=True, timeout=60)["content"]
        begin = code[: content["cursor_start"]].rpartition("\n")[2]
        return [begin + match for match in content["matches"]]

    def inspect(self, code: str) -> str:
        """What a tooltip at the end of some code says; empty where nothing is known."""
        reply = self._client.inspect(code, len(code), reply=True, timeout=60)
        return reply["content"]["data"].get("text/plain", "")

    def pump(self, until: Any, timeout_s: float) -> None:
        """Take messages until something holds."""
        deadline_s = time.monotonic() + timeout_s
        while not until():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"Not within {timeout_s} s. Cells: {self._cells}")
            try:
                self._take(self._client.get_iopub_msg(timeout=min(left_s, 0.5)))
            except Empty:
                continue

    def _take(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if cell is None:
            return
        cell.kinds.add(kind)
        display_id = content.get("transient", {}).get("display_id")
        if kind == "status" and content["execution_state"] == "idle":
            cell.seconds = time.monotonic() - cell.began_s
        elif kind == "stream":
            _stream(cell.outputs, content["name"], content["text"])
        elif kind == "error":
            cell.error = content
        elif kind in ("display_data", "execute_result"):
            cell.outputs.append(Output(kind, content["data"], display_id))
            cell.shown_s.append(time.monotonic() - cell.began_s)
        elif kind == "update_display_data":
            cell.shown_s.append(time.monotonic() - cell.began_s)
            for other in self._cells.values():
                for output in other.outputs:
                    if output.display_id == display_id:
                        output.data = content["data"]


def _stream(outputs: list[Output], name: str, text: str) -> None:
    """Append text as a front end does: the kernel sends one print in pieces, which make one output."""
    kind = f"stream {name}"
    if outputs and outputs[-1].kind == kind:
        outputs[-1].data["text/plain"] += text
    else:
        outputs.append(Output(kind, {"text/plain": text}))
