"""Sends figures, tables and last values from a rank as events, where ipykernel would publish messages.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.jsonutil import encode_images, json_clean
from ipykernel.zmqshell import ZMQDisplayPublisher

from jupyter_ddl.protocol.events import OutputCleared, RichOutput

if TYPE_CHECKING:
    from jupyter_ddl.engine.capture import Capture
    from jupyter_ddl.engine.event_log import Journal


# A screen shows some thousand lines. A picture or an animation cannot be cut.
_TEXT_CHARACTERS = 1 << 20
_OTHER_BYTES = 64 << 20


def bounded_bundle(data: dict[str, Any]) -> dict[str, Any]:
    """Return a MIME bundle whose parts are small enough to be sent, kept and shown; its text names what is left out."""
    bounded = {}
    for kind, value in data.items():
        if not isinstance(value, (str, bytes)):
            bounded[kind] = value
        elif kind == "text/plain" and len(value) > _TEXT_CHARACTERS:
            bounded[kind] = _ends_of(str(value))
        elif len(value) > _OTHER_BYTES:
            note = (
                f"({kind} of {len(value) >> 20:,} MiB was left out: at most {_OTHER_BYTES >> 20} MiB are shown. "
                f"Write it to a file.)"
            )
            bounded["text/plain"] = f"{bounded.get('text/plain', '')}\n{note}".lstrip()
        else:
            bounded[kind] = value
    return bounded


def _ends_of(text: str) -> str:
    half = _TEXT_CHARACTERS // 2
    note = (
        f"… ({len(text) - 2 * half:,} characters left out: at most {_TEXT_CHARACTERS:,} of a value are shown; "
        f"session.pull gives all of it) …"
    )
    return f"{text[:half]}\n{note}\n{text[-half:]}"


class Outlet:
    """Sends a rank's rich output, after the text that was printed before it.

    Attributes:
        run: the run that output belongs to; the guard sets it.
    """

    def __init__(self, rank: int, emit: Journal, capture: Capture) -> None:
        self.run = ""
        self._rank = rank
        self._emit = emit
        self._capture = capture

    def show(
        self,
        kind: Literal["display", "update", "result"],
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        display_id: str | None = None,
    ) -> None:
        """Send a MIME bundle."""
        self._capture.drain()
        clean: dict[str, Any] = json_clean(encode_images(bounded_bundle(data)))
        self._emit(RichOutput(self.run, self._rank, kind, clean, json_clean(metadata or {}), display_id))

    def clear(self, *, wait: bool) -> None:
        """Send a request to clear this rank's output."""
        self._capture.drain()
        self._emit(OutputCleared(self.run, self._rank, wait))


class RankDisplayPublisher(ZMQDisplayPublisher):
    """IPython's `display()` on a rank."""

    outlet: Outlet

    def publish(  # type: ignore[override]  # without the `source` that IPython has deprecated
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        """Send a display, or an update of one."""
        display_id = (transient or {}).get("display_id")
        # Jupyter's messages have text there, and a cell gives any value.
        named = None if display_id is None else str(display_id)
        self.outlet.show("update" if update else "display", data, metadata, named)

    def clear_output(self, wait: bool = False) -> None:
        """Send a request to clear the output."""
        self.outlet.clear(wait=wait)


class RankDisplayHook(ZMQShellDisplayHook):
    """The value of a cell's last expression on a rank."""

    outlet: Outlet

    def compute_format_data(self, result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the value's MIME bundle and its metadata, bounded: IPython keeps the text in its history too."""
        data, metadata = super().compute_format_data(result)
        return bounded_bundle(data), metadata

    def finish_displayhook(self) -> None:
        """Send the value that IPython has formatted."""
        if self.msg and self.msg["content"]["data"]:
            content = self.msg["content"]
            self.outlet.show("result", content["data"], content["metadata"])
        self.msg = None
