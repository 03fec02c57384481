"""Runs ipyparallel's controller, which ends with its lease: `python -m jupyter_ddl.cluster.controller`."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from jupyter_ddl.host import files
from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.host.process_tree import end_with_parent


def main() -> None:
    """Run the controller, whose connection files are whole and whose ports are its own as soon as they exist."""
    from ipyparallel.controller.app import IPController

    class Controller(IPController):
        def initialize(self, argv: list[str] | None = None) -> None:
            # With CURVE ipyparallel would leave the messages unsigned, and every reader and writer warns of that.
            self.config.Session.key = secrets.token_hex(32).encode()
            super().initialize(argv)

        def save_connection_dict(self, fname: str, cdict: dict[str, Any]) -> None:
            # ipyparallel writes in place: ranks and kernel, which wait for the file to exist, found it empty.
            files.replace(Path(self.profile_dir.security_dir, fname), json.dumps(cdict, indent=2))

        def next_port(self, pool_name: str = "common") -> int:
            # ipyparallel releases a port as soon as it has chosen it, and binds it up to a second later.
            is_configured = self.ports or self.engine_ports or self.client_ports
            return super().next_port(pool_name) if is_configured else ports.add()

        def start(self) -> None:
            # Without heartbeats ranks wait for minutes; without the controller the cluster ends at once.
            self.loop.add_callback(self._end_with_heartmonitor)
            super().start()

        def _end_with_heartmonitor(self) -> None:
            self.loop.add_handler(self.heartmonitor_process.sentinel, self._heartmonitor_ended, self.loop.READ)

        def _heartmonitor_ended(self, sentinel: int, _: int) -> None:
            self.loop.remove_handler(sentinel)
            self.log.critical("the heartbeat monitor ended (status %s)", self.heartmonitor_process.exitcode)
            self.terminate_children()
            self.exit(1)

    with HeldPorts() as ports:
        Controller.launch_instance()


if __name__ == "__main__":
    # Before ipyparallel's import, which takes a while.
    end_with_parent()
    # Its heartbeat monitor is a forked process, which does not inherit that.
    os.register_at_fork(after_in_child=end_with_parent)
    main()
