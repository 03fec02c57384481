"""Answers requests for one run: what is known of it, its labels, its deletion, and how long its ranks' logs are."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import MetricsSample
from jupyter_ddl.runs import labels
from jupyter_ddl.runs.logs import log_files
from jupyter_ddl.runs.prune import delete, reason_to_stay
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import RUNNING, UNKNOWN, RunRecord, single_rank_samples_per_s
from jupyter_ddl.server.requests import HubHandler
from jupyter_ddl.timeline.run_files import has_timeline
from jupyter_ddl.views.event_batches import finite
from jupyter_ddl.views.fault import with_text
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.run_output import final_state

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CELL_BYTES = 1 << 20
MAX_LOGS = 10_000


class RunHandler(HubHandler):
    """GET runs/RUN -> its record, cell, notebook's place, hosts and devices. PATCH runs/RUN {name}. DELETE runs/RUN."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with what is known of a run."""
        record = await self.run(run)
        place = await self.in_thread(place_of, record.notebook, getattr(self.contents_manager, "root_dir", None))
        self.answer(as_json(record) | {"place": place} | await self.in_thread(_details, record.path))

    @authenticated
    @authorized
    async def patch(self, run: str) -> None:
        """Change a run's labels, as `%ddl runs` does, and tell all browsers; 400 with the reason where it cannot be."""
        asked = self.get_json_body()
        if not isinstance(asked, dict) or not asked or not _CHANGES.keys() >= asked.keys():
            names = ", ".join(_CHANGES)
            raise HTTPError(400, f"A run's labels are {names}. Received: something else. Name one of them.")
        record = await self.run(run)
        try:
            async with self._hub.labels:
                await self.in_thread(change_labels, record.path, asked)
        except InvalidInput as error:
            raise HTTPError(400, str(error)) from error
        self._hub.labelled(run)
        self.answer(as_json(await self.run(run)))

    @authenticated
    @authorized
    async def delete(self, run: str) -> None:
        """Delete a run, unless it still runs or its folder holds other files."""
        record = await self.run(run)
        reason = await self.in_thread(reason_to_stay, record)
        if reason is not None:
            raise HTTPError(409, f"A run is deleted when it is over. Received: {record.run}, but {reason}.")
        try:
            await self.in_thread(delete, [record])
        except InvalidInput as error:
            raise HTTPError(409, str(error)) from error
        self.set_status(204)
        self.finish()


_CHANGES: dict[str, Callable[[Path, Any], None]] = {
    "name": labels.rename,
    "note": labels.annotate,
    "remove_tags": labels.untag,
    "add_tags": labels.tag,
}


def change_labels(folder: Path, asked: dict[str, Any]) -> None:
    """Change labels of the run in a folder.

    Args:
        folder: of the run.
        asked: `name` and `note`, texts; `remove_tags` and `add_tags`, lists of texts.

    Raises:
        InvalidInput: one is no such thing, or is refused as `%ddl runs` refuses it; those before it are changed.
    """
    for label, change in _CHANGES.items():
        if label in asked:
            value = asked[label]
            texts = value if label.endswith("_tags") else [value]
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                rule = "A run's name and note are texts, and tags are lists of texts."
                raise InvalidInput(rule, f"{label} of another kind", "Send texts.")
            change(folder, value)


def place_of(notebook: str | None, root: str | None) -> dict[str, str | None]:
    """Return where a run's notebook is among the server's files.

    Args:
        notebook: its path, as its kernel's front end said it.
        root: the server's folder; None where the server keeps no files.

    Returns:
        `path`, below that folder, and `problem`: "none" of a run without a notebook, "outside" that folder, where the
        path is None; "gone"; None where the notebook is there.
    """
    if notebook is None:
        return {"path": None, "problem": "none"}
    if root is None:
        return {"path": None, "problem": "outside"}
    folder = Path(root).expanduser().absolute()
    file = Path(os.path.normpath(folder / notebook))
    if not file.is_relative_to(folder):
        # One of the two may be named through a link.
        folder, file = folder.resolve(), file.resolve()
    if not file.is_relative_to(folder):
        return {"path": None, "problem": "outside"}
    return {"path": file.relative_to(folder).as_posix(), "problem": None if file.is_file() else "gone"}


class PictureHandler(HubHandler):
    """GET runs/RUN/picture -> {image/svg+xml, text/plain}: the final output under the cell of a run that trained."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with the final state of a run that is over."""
        record = await self.run(run)
        found = await self.in_thread(_final_state, record)
        if found is None:
            raise HTTPError(404, f"A run leaves a picture when it has trained and is over. Received: {record.run}.")
        self.answer(found)


class LogsHandler(HubHandler):
    """GET runs/RUN/logs -> [{rank, bytes}], of MAX_LOGS ranks at most."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with the ranks that have a log, and its size."""
        record = await self.run(run)
        self.answer(await self.in_thread(_sizes, record.path))


def as_json(record: RunRecord) -> dict[str, Any]:
    """Return a run's record as a browser reads it: words for NaN and the infinities, and no path.

    The fault has its text, as in events.
    """
    content = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "path"}
    if record.fault is not None:
        content["fault"] = asdict(with_text(record.fault))
    as_words: dict[str, Any] = finite(content)
    return as_words


def _details(folder: Path) -> dict[str, Any]:
    try:
        cell = untrusted_files.read_beginning(folder / "cell.py", MAX_CELL_BYTES).decode(errors="replace")
    except OSError:
        cell = None
    try:
        content = untrusted_files.read_object(folder / "run.json")
    except (OSError, ValueError):
        # The record is made from the folder's other files.
        content = {}
    named = {name: content.get(name) for name in ("cluster", "hosts", "devices", "versions")}
    return {"cell": cell, "has_timeline": has_timeline(folder), **finite(named)}


def _final_state(record: RunRecord) -> dict[str, str] | None:
    """Return a run's picture and table; None where it did not train, or may not be over."""
    if record.state in (RUNNING, UNKNOWN):
        return None
    figures = Figures(partial(_single_rank, record.computes_on))
    trained = False
    for event in run_events(record.path):
        trained = trained or (isinstance(event, MetricsSample) and event.step is not None)
        figures.handle(event)
    if not trained:
        return None
    # The events of a run that was cut off do not say so.
    figures.outcome = figures.outcome or record.state
    return final_state(figures)


def _single_rank(computes_on: str | None, model: str) -> float | None:
    return None if computes_on is None else single_rank_samples_per_s(model, computes_on)


def _sizes(folder: Path) -> list[dict[str, int]]:
    found = islice(log_files(folder).items(), MAX_LOGS)
    return [{"rank": rank, "bytes": size} for rank, path in found if (size := _size(path)) is not None]


def _size(path: Path) -> int | None:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        # Deleted meanwhile.
        return None
