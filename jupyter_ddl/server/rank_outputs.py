"""Answers with what one rank showed in a run, in order: text, figures, its error; from the rank's own events.

Runs on: Jupyter server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import OutputChunk, OutputCleared, RankFailed, RichOutput
from jupyter_ddl.protocol.rank_files import EVENTS, rank_file
from jupyter_ddl.runs.reading import event_of
from jupyter_ddl.server.requests import HubHandler
from jupyter_ddl.views.event_batches import finite
from jupyter_ddl.views.run_output import WIDGET_MIME

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event

PAGE_BYTES = 4 << 20
_RANK = 10**9
_POSITION = 1 << 50


class OutputsHandler(HubHandler):
    """GET runs/RUN/outputs?rank=&after= -> {next, outputs}: what a rank showed behind a place of its events."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with a page of outputs, and where the next one begins: the same place where there are no more yet."""
        rank, after = self.number("rank", 0, 0, _RANK), self.number("after", 0, 0, _POSITION)
        record = await self.run(run)
        self.answer(await self.in_thread(page_of_outputs, record.path, rank, after))


def page_of_outputs(folder: Path, rank: int, after: int, page_bytes: int = PAGE_BYTES) -> dict[str, Any]:
    """Return what a rank showed: `outputs`, in order, and `next`, the place behind them.

    An output is one of `{type: "stream", name, text}`, `{type: "display" | "update" | "result", data, metadata,
    display_id}`, `{type: "error", name, message, traceback}` and `{type: "clear", wait}`.

    Args:
        folder: of the run.
        rank: whose; one that has written nothing has none.
        after: a place that was returned as `next`; 0 for the beginning.
        page_bytes: how much of the rank's events is read; more where one event is longer.
    """
    outputs: list[dict[str, Any]] = []
    lines, following = untrusted_files.lines_from(folder / rank_file(rank, EVENTS), after, page_bytes)
    for line in lines:
        event = event_of(line)
        output = None if event is None else _output(event, rank)
        if output is None:
            continue
        last = outputs[-1] if outputs else {}
        if output["type"] == last.get("type") == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            outputs.append(output)
    return {"next": following, "outputs": finite(outputs)}


def _output(event: Event, rank: int) -> dict[str, Any] | None:
    if isinstance(event, OutputChunk):
        skipped = (
            f"\n… {event.skipped_bytes:,} bytes are only in the log of rank {rank}\n" if event.skipped_bytes else ""
        )
        return {"type": "stream", "name": event.stream, "text": skipped + event.text}
    if isinstance(event, RichOutput):
        # A widget's state is in the rank's process, which no browser reaches.
        data = {mime: value for mime, value in event.data.items() if mime != WIDGET_MIME}
        shown = {"type": event.kind, "data": data, "metadata": event.metadata, "display_id": event.display_id}
        return shown if data else None
    if isinstance(event, OutputCleared):
        return {"type": "clear", "wait": event.wait}
    if isinstance(event, RankFailed):
        traceback = list(event.traceback)
        return {"type": "error", "name": event.name, "message": event.message, "traceback": traceback}
    return None
