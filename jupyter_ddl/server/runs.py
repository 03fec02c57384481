"""Answers requests for runs: a page of the list, one run, its deletion, and pages of its ranks' logs."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import MetricsSample
from jupyter_ddl.protocol.rank_files import LOG, rank_file
from jupyter_ddl.runs.logs import RankLog, log_files
from jupyter_ddl.runs.pages import MAX_PAGE_BYTES, Page, page, search
from jupyter_ddl.runs.prune import delete, reason_to_stay
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import RUNNING, UNKNOWN, RunRecord, newest_first, single_rank_samples_per_s
from jupyter_ddl.server.requests import HubHandler
from jupyter_ddl.views.event_batches import finite
from jupyter_ddl.views.fault import with_text
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.metrics_table import metrics_table
from jupyter_ddl.views.picture import picture

if TYPE_CHECKING:
    from pathlib import Path

MAX_LISTED = 200
# Runs that one page of a search reads: it must not read years of them at once.
MAX_SEARCHED = 2_000
MAX_CELL_BYTES = 1 << 20
MAX_LOGS = 10_000
_LEAST_PAGE_BYTES = 64
_END = 1 << 62


class RunsHandler(HubHandler):
    """GET runs?search=&before=RUN&limit=50 -> {runs, more, next}: a page, the newest first."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the runs before a given one whose id, labels, notebook, model, state or device have the text."""
        limit = self.number("limit", 50, 1, MAX_LISTED)
        before = self.text("before") or None
        self.answer(await self.in_thread(_listing, self.text("search").casefold(), before, limit))


class RunHandler(HubHandler):
    """GET runs/RUN -> its record, its cell, and its ranks' hosts and devices. DELETE runs/RUN."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with what is known of a run."""
        record = await self.run(run)
        self.answer(as_json(record) | await self.in_thread(_details, record.path))

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


class LogHandler(HubHandler):
    """GET runs/RUN/logs/K?offset=&limit=65536&stderr=0 -> {text, unfinished, offset, next, size}."""

    @authenticated
    @authorized
    async def get(self, run: str, rank: str) -> None:
        """Answer with a page of a rank's log."""
        offset, limit = (
            self.number("offset", 0, 0, _END),
            self.number("limit", 1 << 16, _LEAST_PAGE_BYTES, MAX_PAGE_BYTES),
        )
        only_stderr = bool(self.number("stderr", 0, 0, 1))
        record = await self.run(run)
        found = await self.in_thread(_page, record, int(rank), offset, limit, only_stderr)
        self.answer(asdict(_there(found, rank)))


class SearchHandler(HubHandler):
    """GET runs/RUN/logs/K/search?pattern=&from=0&stderr=0 -> {offset, next}: a text as it stands, not an expression."""

    @authenticated
    @authorized
    async def get(self, run: str, rank: str) -> None:
        """Answer with where a text occurs next, within what one request may search."""
        pattern, start = self.text("pattern"), self.number("from", 0, 0, _END)
        if not pattern or "\n" in pattern:
            raise HTTPError(400, f"pattern must be a text of one line. Received: {len(pattern)} characters.")
        only_stderr = bool(self.number("stderr", 0, 0, 1))
        record = await self.run(run)
        found = await self.in_thread(_search, record.path, int(rank), pattern, start, only_stderr)
        offset, following = _there(found, rank)
        self.answer({"offset": offset, "next": following})


def as_json(record: RunRecord) -> dict[str, Any]:
    """Return a run's record as a browser reads it: words for NaN and the infinities, and no path.

    The fault has its text, as in events.
    """
    content = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "path"}
    if record.fault is not None:
        content["fault"] = asdict(with_text(record.fault))
    as_words: dict[str, Any] = finite(content)
    return as_words


def _listing(text: str, before: str | None, limit: int) -> dict[str, Any]:
    found: list[RunRecord] = []
    last: str | None = None
    records = newest_first(before)
    for record in islice(records, MAX_SEARCHED):
        last = record.run
        if _has(record, text):
            found.append(record)
        if len(found) == limit:
            break
    more = next(records, None) is not None
    # A list shows no fault, and a fault may hold where each rank was.
    listed = [as_json(replace(record, fault=None)) for record in found]
    return {"runs": listed, "more": more, "next": last if more else None}


def _has(record: RunRecord, text: str) -> bool:
    told = (record.name, record.notebook, *record.tags)
    shown = (record.run, record.model, record.state, record.computes_on, *told)
    return any(text in value.casefold() for value in shown if value)


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
    return {"cell": cell, **finite(named)}


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
    return {"image/svg+xml": picture(figures), "text/plain": metrics_table(figures)}


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


def _page(record: RunRecord, rank: int, offset: int, limit: int, only_stderr: bool) -> Page | None:
    path = record.path / rank_file(rank, LOG)
    if not untrusted_files.is_file(path):
        return None
    with RankLog(path, only_stderr=only_stderr) as log:
        return page(log, offset, limit, grows=record.state in (RUNNING, UNKNOWN))


def _search(folder: Path, rank: int, text: str, start: int, only_stderr: bool) -> tuple[int | None, int] | None:
    path = folder / rank_file(rank, LOG)
    if not untrusted_files.is_file(path):
        return None
    with RankLog(path, only_stderr=only_stderr) as log:
        return search(log, text, start)


def _there(found: Any, rank: str) -> Any:
    if found is None:
        raise HTTPError(404, f"A rank must have a log. Received: rank {rank}, which has none in this run.")
    return found
