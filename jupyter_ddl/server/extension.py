"""Extends jupyter_server: adds the hub's addresses, starts and stops it, and sets the variable for its kernels."""

from __future__ import annotations

import os
import zlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Float

from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.paths import HUB_VARIABLE
from jupyter_ddl.server.board_pages import BoardHandler, BoardsHandler
from jupyter_ddl.server.boards import IDLE_S
from jupyter_ddl.server.clusters import ClusterHandler, ClustersHandler
from jupyter_ddl.server.devices import DevicesHandler, HostHandler
from jupyter_ddl.server.example import ExampleHandler
from jupyter_ddl.server.exports import ExportHandler
from jupyter_ddl.server.hub import Hub
from jupyter_ddl.server.jobs import JobHandler, JobsHandler
from jupyter_ddl.server.live import LiveHandler
from jupyter_ddl.server.log_lines import LinesHandler, LogFileHandler
from jupyter_ddl.server.oversight import HubOverviewHandler, HubStopIdleHandler, OverviewHandler, StopIdleHandler
from jupyter_ddl.server.places import PlacesHandler
from jupyter_ddl.server.rank_outputs import OutputsHandler
from jupyter_ddl.server.reports import ReportHandler
from jupyter_ddl.server.run_lists import RunsHandler, RunValuesHandler
from jupyter_ddl.server.runs import LogsHandler, PictureHandler, RunHandler
from jupyter_ddl.server.socket_path import socket_path
from jupyter_ddl.server.timelines import TimelineFileHandler, TimelineHandler

if TYPE_CHECKING:
    from pathlib import Path

_RUN = r"/jupyter-ddl/runs/([^/]+)"


class HubExtension(ExtensionApp):
    """The hub of one server."""

    name = "jupyter_ddl"
    tensorboard_idle_s = Float(IDLE_S, help="Seconds after which an unused TensorBoard ends.").tag(config=True)
    hub: Hub

    def initialize_handlers(self) -> None:
        """Add the hub's addresses, all under /jupyter-ddl/, and start it with the server."""
        self.hub = Hub(self.log, self.tensorboard_idle_s)
        if find_spec("jupyterlab_server") is not None:
            from jupyter_ddl.server import settings_translation

            settings_translation.install()
        own: dict[str, Any] = {"hub": self.hub}
        self.handlers.extend(
            [
                (r"/jupyter-ddl/live", LiveHandler, own),
                (r"/jupyter-ddl/devices", DevicesHandler, own),
                (r"/jupyter-ddl/host", HostHandler, own),
                (r"/jupyter-ddl/places", PlacesHandler, own),
                (r"/jupyter-ddl/export", ExportHandler, own),
                (r"/jupyter-ddl/example", ExampleHandler, own),
                (r"/jupyter-ddl/clusters", ClustersHandler, own),
                (r"/jupyter-ddl/clusters/([^/]+)", ClusterHandler, own),
                (r"/jupyter-ddl/overview", OverviewHandler, own),
                (r"/jupyter-ddl/overview/stop", StopIdleHandler, own),
                (r"/jupyter-ddl/hub-overview", HubOverviewHandler, own),
                (r"/jupyter-ddl/hub-overview/stop", HubStopIdleHandler, own),
                (r"/jupyter-ddl/jobs", JobsHandler, own),
                (r"/jupyter-ddl/jobs/([^/]+)", JobHandler, own),
                (r"/jupyter-ddl/runs", RunsHandler, own),
                (_RUN, RunHandler, own),
                (_RUN + r"/logs", LogsHandler, own),
                (_RUN + r"/lines", LinesHandler, own),
                (_RUN + r"/log-file", LogFileHandler, own),
                (_RUN + r"/outputs", OutputsHandler, own),
                (_RUN + r"/picture", PictureHandler, own),
                (_RUN + r"/report", ReportHandler, own),
                (_RUN + r"/timeline", TimelineHandler, own),
                (_RUN + r"/timeline-file", TimelineFileHandler, own),
                (r"/jupyter-ddl/run-values", RunValuesHandler, own),
                (r"/jupyter-ddl/boards", BoardsHandler, own),
                (r"/jupyter-ddl/tensorboard/([^/]+)(/.*)?", BoardHandler, own),
            ]
        )
        # A server that was started in another one's terminal inherits that one's variable.
        os.environ.pop(HUB_VARIABLE, None)
        # When the loop runs, the server has its port, and has started no kernel yet.
        self._server.io_loop.add_callback(self._begin)

    async def stop_extension(self) -> None:
        """Disconnect kernels and browsers when the server stops."""
        await self.hub.close()

    async def _begin(self) -> None:
        try:
            path = await self.hub.open(self._socket_path(), self._server.base_url)
        except (FolderNotWritable, OSError) as error:
            self.log.warning("jupyter_ddl: kernels cannot reach this server, so the panel shows none: %s", error)
            return
        os.environ[HUB_VARIABLE] = str(path)

    def _socket_path(self) -> Path:
        # The same for a restarted server, so that its kernels, which may still live, connect to it.
        server = self._server
        return socket_path(f"{zlib.crc32(server.sock.encode()):08x}" if server.sock else str(server.port))

    @property
    def _server(self) -> Any:
        return self.serverapp
