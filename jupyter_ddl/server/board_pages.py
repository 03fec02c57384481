"""Serves TensorBoard's pages: opens and ends boards, and passes requests on to them.

A request is passed on to the board's unix socket once it has Jupyter's own login and the authorizer's consent. Cookies
and tokens are not passed on, and of an answer's headers only those that a browser needs for TensorBoard are.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.httputil import HTTPHeaders, parse_response_start_line
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import DdlError
from jupyter_ddl.protocol.hub_messages import BoardAsked
from jupyter_ddl.server.boards import PATH
from jupyter_ddl.server.requests import HubHandler, quoted

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from jupyter_ddl.server.boards import Board

_CHUNK_BYTES = 1 << 16
_ASKED = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "If-None-Match", "If-Modified-Since", "Range")
_ASKED_OF_TENSORBOARD = "X-Tensorboard-"
_ANSWERED = {
    "Accept-Ranges",
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Etag",
    "Expires",
    "Last-Modified",
    "Vary",
}


class BoardsHandler(HubHandler):
    """GET boards -> [{name, folder, run}]; POST boards {folder} or {run} -> {path}."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with those that run: each has the folder of logs, or the run's."""
        running = self._hub.boards.running()
        self.answer([{"name": one.name, "folder": _text(one.logs), "run": _text(one.run)} for one in running])

    @authenticated
    @authorized
    async def post(self) -> None:
        """Open a board, which is started where it does not run; answer with its address, from the server's root on."""
        asked = self.get_json_body()
        given = asked if isinstance(asked, dict) else {}
        folder, run = given.get("folder"), given.get("run")
        if not any(isinstance(one, str) and other is None for one, other in ((folder, run), (run, folder))):
            raise HTTPError(400, "A board is of a folder or of a run. Received: something else. Pass one of the two.")
        try:
            with self.admitted():
                self.answer({"path": await self._hub.boards.open(BoardAsked(folder, run))})
        except (DdlError, OSError) as error:
            raise HTTPError(400, "%s", error) from error


class BoardHandler(HubHandler):
    """GET tensorboard/NAME/..., and HEAD, POST: what TensorBoard answers. DELETE tensorboard/NAME/ ends it."""

    # TensorBoard's page asks again and again by itself: a server that is idle may be ended though one is open.
    _track_activity = False

    @property
    def content_security_policy(self) -> str:
        """The server's own for pages, in place of that for data; TensorBoard's comes with its page."""
        return str(super(APIHandler, self).content_security_policy)

    def check_xsrf_cookie(self) -> None:
        """Take what TensorBoard's own page asks for, which knows no XSRF token; all else as the server does."""
        if self.request.method == "DELETE" or not self._is_of_own_page():
            super().check_xsrf_cookie()

    @authenticated
    @authorized
    async def get(self, name: str, rest: str | None) -> None:
        """Pass a request on."""
        if rest is None:
            # TensorBoard's page names its files relative to its address.
            self.redirect(f"{self.base_url}{PATH}{name}/")
            return
        await self._pass_on(self._board(name))

    @authenticated
    @authorized
    async def head(self, name: str, rest: str | None) -> None:  # noqa: ARG002  tornado's signature
        """Pass a request on."""
        await self._pass_on(self._board(name))

    @authenticated
    @authorized("read")  # type: ignore[untyped-decorator]
    async def post(self, name: str, rest: str | None) -> None:  # noqa: ARG002  likewise
        """Pass a request on: TensorBoard changes nothing, and asks for much at once by POST."""
        await self._pass_on(self._board(name))

    @authenticated
    @authorized
    async def delete(self, name: str, rest: str | None) -> None:  # noqa: ARG002  likewise
        """End a board."""
        self._hub.boards.end(self._board(name))
        self.set_status(204)
        self.finish()

    def _board(self, name: str) -> Board:
        board = self._hub.boards.find(name)
        if board is None:
            rule = "TensorBoard shows what was opened since the Jupyter server began."
            raise HTTPError(404, "%s", f"{rule} Received: {quoted(name)}. Open it again: %ddl tensorboard.")
        return board

    def _is_of_own_page(self) -> bool:
        """Whether a page of a board of this server sent the request; browsers let no page of another site say so."""
        referer = urlsplit(self.request.headers.get("Referer", ""))
        return referer.netloc == self.request.host and referer.path.startswith(self.base_url + PATH)

    async def _pass_on(self, board: Board) -> None:
        board.requests += 1
        try:
            reader, writer = await self._hub.boards.connect(board)
            with closing(writer):
                writer.write(self._request())
                await writer.drain()
                await self._answer(reader)
        except StreamClosedError:
            # The browser has left.
            return
        except (OSError, EOFError, ValueError) as error:
            if self._headers_written:
                # Half an answer: the connection must not end as if it were whole.
                raise
            said = f"It printed last: {words}" if (words := self._hub.boards.last_words(board)) else "Load it again."
            raise HTTPError(502, "%s", f"TensorBoard must answer. Received: {error}. {said}") from error
        finally:
            board.requests -= 1
            board.touch()

    def _request(self) -> bytes:
        """Return the request for TensorBoard, whose own address is /: its page names files relative to itself."""
        request = self.request
        assert request.uri is not None
        below = request.uri[len(self.base_url + PATH) :].partition("/")[2]
        names = [*_ASKED, *(name for name in request.headers if name.startswith(_ASKED_OF_TENSORBOARD))]
        given = {name: request.headers[name] for name in names if name in request.headers}
        given |= {"Host": "localhost", "Content-Length": str(len(request.body))}
        lines = [f"{request.method} /{below} HTTP/1.0", *(f"{name}: {value}" for name, value in given.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        """Pass an answer on as it comes: no more of it waits here than the browser's connection takes."""
        first, _, rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").partition("\r\n")
        start = parse_response_start_line(first)
        headers = HTTPHeaders.parse(rest.rstrip("\r\n"))
        self.set_status(start.code, start.reason)
        # The server's is for its own data.
        self.clear_header("Content-Type")
        for name, value in headers.get_all():
            if name in _ANSWERED:
                self.set_header(name, value)
            elif name == "Content-Security-Policy":
                # Both hold: TensorBoard's for what its page loads, the server's for which pages may frame it.
                self.add_header(name, value)
        if self.request.method != "HEAD":
            while chunk := await reader.read(_CHUNK_BYTES):
                self.write(chunk)
                await self.flush()
        await self.flush()
        self.finish()


def _text(path: Path | None) -> Any:
    return None if path is None else str(path)
