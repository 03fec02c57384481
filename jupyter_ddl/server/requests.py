"""Provides what all requests to the hub share: authorisation, checks of addresses, and reading files in threads."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_server.base.handlers import APIHandler
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from jupyter_ddl.runs.store import find

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from jupyter_ddl.runs.store import RunRecord
    from jupyter_ddl.server.hub import Hub

Found = TypeVar("Found")

MAX_TEXT_CHARACTERS = 1_000
# The most requests that wait for the hub's threads, which read for the watched runs too.
MAX_REQUESTS = 32
_DIGITS = 18


class HubHandler(APIHandler):
    """A request under /jupyter-ddl/. APIHandler refuses other sites' pages, and checks the XSRF token."""

    auth_resource = "jupyter_ddl"

    def initialize(self, hub: Hub) -> None:
        """Store the extension's objects."""
        self._hub = hub

    async def in_thread(self, work: Callable[..., Found], *arguments: Any) -> Found:
        """Return the result of `work`, which may wait for a disk.

        Raises:
            HTTPError: too many requests wait already.
        """
        with self.admitted():
            return await self.work(work, *arguments)

    async def work(self, work: Callable[..., Found], *arguments: Any) -> Found:
        """Return the result of a part of the work of a request that is admitted already."""
        return await asyncio.get_running_loop().run_in_executor(self._hub.pool, work, *arguments)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count this request among those that are being answered.

        Raises:
            HTTPError: there are too many already.
        """
        if self._hub.requests >= MAX_REQUESTS:
            rule = f"The hub takes {MAX_REQUESTS} requests at a time."
            raise HTTPError(503, f"{rule} Received: one more. Ask again when others have been answered.")
        self._hub.requests += 1
        try:
            yield
        finally:
            self._hub.requests -= 1

    def answer(self, content: Any) -> None:
        """Send JSON."""
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(content, allow_nan=False))

    async def send_file(self, chunks: Generator[bytes, None, None], name: str, kind: str) -> None:
        """Send a file of which the first chunk, which is empty, was taken already; to be called while admitted.

        Args:
            chunks: of the file; each is read in a thread when the one before is on its way.
            name: under which the browser saves it.
            kind: its content type.
        """
        self.set_header("Content-Type", kind)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        try:
            while (chunk := await self.work(next, chunks, None)) is not None:
                self.write(chunk)
                await self.flush()
        except StreamClosedError:
            # The browser has ended the download.
            return
        finally:
            await self.work(chunks.close)
        self.finish()

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a number of the address.

        Raises:
            HTTPError: it is none, or out of bounds.
        """
        text = self.get_query_argument(name, str(default))
        digits = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
        if not digits or not least <= int(text) <= most:
            raise HTTPError(400, f"{name} must be a number from {least} to {most}. Received: {quoted(text)}.")
        return int(text)

    def text(self, name: str, default: str = "") -> str:
        """Return a text of the address.

        Raises:
            HTTPError: it is too long.
        """
        text: str = self.get_query_argument(name, default)
        if len(text) > MAX_TEXT_CHARACTERS:
            rule = f"{name} must have {MAX_TEXT_CHARACTERS} characters at most."
            raise HTTPError(400, f"{rule} Received: {len(text)}.")
        return text

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the error's sentence as it is: tornado keeps it with each % doubled, as a format for its log."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        if isinstance(error, HTTPError) and error.log_message:
            self.finish(json.dumps({"message": error.log_message % error.args, "reason": error.reason}))
        else:
            super().write_error(status_code, **kwargs)

    async def run(self, name: str) -> RunRecord:
        """Return the run that an address names.

        Raises:
            HTTPError: there is none of exactly that id.
        """
        record = await self.in_thread(find, name)
        if record is None:
            raise HTTPError(404, f"A run must be named by its id. Received: {quoted(name)}, which is no run.")
        return record


def quoted(text: str) -> str:
    """Return a received text, quoted and bounded for a sentence."""
    return repr(text[:80])
