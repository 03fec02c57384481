"""Answers requests for where the time of a run's steps went: the analysis with some steps to draw, and files of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs.log_times import clocks_ahead_us
from jupyter_ddl.server.requests import HubHandler
from jupyter_ddl.timeline.picture import picture_record
from jupyter_ddl.timeline.record import analysis_record
from jupyter_ddl.timeline.run_files import analyse_run, perfetto_pieces
from jupyter_ddl.timeline.text import findings

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

# As many as a picture has room for; each has a moment for each rank.
MAX_STEPS = 200
_STEP = 10**12


class TimelineHandler(HubHandler):
    """GET runs/RUN/timeline?first=&most= -> the analysis, and `picture`: the steps from that one on, counted from 0."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with the analysis; 400 with the reason where there is none."""
        first, most = self.number("first", 0, 0, _STEP), self.number("most", 40, 1, MAX_STEPS)
        record = await self.run(run)
        try:
            # A large file takes a minute of one thread: the hub's others are for other requests.
            async with self._hub.timelines:
                self.answer(await self.in_thread(_analysis, record.path, range(first, first + most)))
        except InvalidInput as error:
            raise HTTPError(400, str(error)) from error


class TimelineFileHandler(HubHandler):
    """GET runs/RUN/timeline-file?perfetto=0|1 -> the analysis as JSON, or the file for Perfetto, to be saved."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Send it, a piece at a time; 400 with the reason where there is none."""
        is_perfetto = bool(self.number("perfetto", 0, 0, 1))
        record = await self.run(run)
        with self.admitted():
            chunks = _perfetto(record.path) if is_perfetto else _json(record.path)
            try:
                async with self._hub.timelines:
                    await self.work(next, chunks, None)
                    name = f"{record.run}-{'perfetto' if is_perfetto else 'timeline'}.json"
                    await self.send_file(chunks, name, "application/json")
            except InvalidInput as error:
                raise HTTPError(400, str(error)) from error


def _analysis(folder: Path, steps: range) -> dict[str, Any]:
    found = analyse_run(folder, clocks_ahead_us(folder), steps)
    picture = [picture_record(step) for step in found.kept]
    found.kept = []
    # The server's folders are none of the browser's.
    return {**analysis_record(found), "file": None, "findings": list(findings(found)), "picture": picture}


def _json(folder: Path) -> Generator[bytes, None, None]:
    record = analysis_record(analyse_run(folder, clocks_ahead_us(folder)))
    yield b""
    yield json.dumps({**record, "file": None}, indent=1).encode()


def _perfetto(folder: Path) -> Generator[bytes, None, None]:
    pieces = perfetto_pieces(folder, clocks_ahead_us(folder))
    first = next(pieces)
    yield b""
    yield first.encode()
    for piece in pieces:
        yield piece.encode()
