"""Serves the hub's WebSocket: authenticated, from this server's own pages only, with bounded messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.web import HTTPError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_ddl.server.browser import Browser

if TYPE_CHECKING:
    from jupyter_ddl.server.hub import Hub

MAX_FRAME_BYTES = 1 << 20
# Policy violation; source: RFC 6455, 7.4.1.
_AGAINST_THE_RULES = 1008
# The most bytes of a reason in a close frame; source: RFC 6455, 5.5.
_REASON_BYTES = 123


class LiveHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One browser's connection. A frame over MAX_FRAME_BYTES ends it with code 1009, by tornado."""

    auth_resource = "jupyter_ddl"
    _browser: Browser | None = None

    def initialize(self, hub: Hub) -> None:
        """Store the extension's objects."""
        self._hub = hub

    def set_default_headers(self) -> None:
        """Set none: those of a page make no sense here."""

    @property
    def max_message_size(self) -> int:
        """The bytes of a frame."""
        return MAX_FRAME_BYTES

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the WebSocket, for users who may execute code here."""
        if not await ensure_async(
            self.authorizer.is_authorized(self, self.current_user, "execute", self.auth_resource)
        ):
            raise HTTPError(403)
        if self._hub.is_full:
            raise HTTPError(503, "Too many browsers are connected. Close other pages of this server.")
        await super().get(*args, **kwargs)

    def open(self) -> None:
        """Send every kernel's state, and accept messages from here on."""
        super().open()
        # A control's answer is small, and must not wait for more to send.
        self.set_nodelay(True)
        self._browser = Browser(self._hub, self._write, self._refuse)
        self._hub.join(self._browser)

    def on_message(self, message: str | bytes) -> None:
        """Forward a message."""
        if self._browser is not None:
            self._browser.receive(message)

    def on_close(self) -> None:
        """Disconnect the browser."""
        self._let_go()

    def _let_go(self) -> None:
        if self._browser is not None:
            self._browser.close()
        self._browser = None

    async def _write(self, message: str | bytes) -> None:
        try:
            await self.write_message(message, binary=isinstance(message, bytes))
        except WebSocketClosedError:
            # on_close has been called, or will be.
            return

    def _refuse(self, reason: str) -> None:
        # Its messages until it has disconnected are ignored.
        self._let_go()
        self.log.warning("jupyter_ddl: a browser was disconnected: %s", reason)
        self.close(_AGAINST_THE_RULES, reason.encode()[:_REASON_BYTES].decode(errors="ignore"))
