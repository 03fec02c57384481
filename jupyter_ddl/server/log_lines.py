"""Answers requests for lines of ranks' logs, one rank's or all ranks' merged by time, and sends whole logs as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.rank_files import LOG, rank_file
from jupyter_ddl.runs.logs import RankLog
from jupyter_ddl.runs.merged_lines import START, merged_lines
from jupyter_ddl.server.log_pages import MAX_LINES, LinesQuery, page_of
from jupyter_ddl.server.log_search import page_of_expression
from jupyter_ddl.server.requests import HubHandler

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from jupyter_ddl.runs.store import RunRecord

_CHUNK_BYTES = 1 << 20
_RANK = 10**9
_WHOLE_SHARE = 1_000_000


class LinesHandler(HubHandler):
    """GET runs/RUN/lines?rank=&after=|before=|share=&most=&pattern= -> a page of lines; see `log_pages`."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Answer with lines of a rank, of all ranks where none is named; the last ones where no place is."""
        query = LinesQuery(
            self._rank(),
            only_stderr=self._flag("stderr"),
            after=self.text("after") or None,
            before=self.text("before") or None,
            share=self._share(),
            most=self.number("most", MAX_LINES, 1, MAX_LINES),
            pattern=self.text("pattern"),
            is_expression=self._flag("regex"),
            is_exact=self._flag("case"),
            only_errors=self._flag("errors"),
        )
        record = await self.run(run)
        try:
            if query.pattern and query.is_expression and not query.only_errors:
                with self.admitted():
                    found = await page_of_expression(record, query)
            else:
                found = await self.in_thread(page_of, record, query)
        except InvalidInput as error:
            raise HTTPError(400, str(error)) from error
        self.answer(_there(found, query.rank))

    def _rank(self) -> int | None:
        return None if self.text("rank") == "" else self.number("rank", 0, 0, _RANK)

    def _share(self) -> float | None:
        """Return the share of the log that is asked for, which comes in millionths."""
        return None if self.text("share") == "" else self.number("share", 0, 0, _WHOLE_SHARE) / _WHOLE_SHARE

    def _flag(self, name: str) -> bool:
        return bool(self.number(name, 0, 0, 1))


class LogFileHandler(HubHandler):
    """GET runs/RUN/log-file?rank= -> a rank's whole log as a file; without a rank, all ranks' lines."""

    @authenticated
    @authorized
    async def get(self, run: str) -> None:
        """Send a log as it is by now, a part at a time."""
        rank = None if self.text("rank") == "" else self.number("rank", 0, 0, _RANK)
        record = await self.run(run)
        with self.admitted():
            chunks = _merged(record) if rank is None else _raw(record, rank)
            _there(await self.work(next, chunks, None), rank)
            which = "all-ranks" if rank is None else f"rank-{rank}"
            await self.send_file(chunks, f"{record.run}-{which}.log", "text/plain; charset=utf-8")


def _raw(record: RunRecord, rank: int) -> Generator[bytes, None, None]:
    path: Path = record.path / rank_file(rank, LOG)
    if not untrusted_files.is_file(path):
        return
    with RankLog(path) as log:
        at, size = 0, log.size()
        yield b""
        while at < size and (data := log.read(at, min(_CHUNK_BYTES, size - at))):
            yield data
            at += len(data)


def _merged(record: RunRecord) -> Generator[bytes, None, None]:
    with merged_lines(record, None) as lines:
        if lines is None:
            return
        yield b""
        held, held_bytes = [], 0
        for line in lines.forward(START):
            text = b"[%d] %b\n" % (line.rank, line.data or b"")
            held.append(text)
            held_bytes += len(text)
            if held_bytes >= _CHUNK_BYTES:
                yield b"".join(held)
                held, held_bytes = [], 0
        yield b"".join(held)


def _there(found: Any, rank: int | None) -> Any:
    if found is None:
        which = "no rank has one" if rank is None else f"rank {rank}, which has none"
        raise HTTPError(404, f"A rank must have a log. Received: {which} in this run.")
    return found
