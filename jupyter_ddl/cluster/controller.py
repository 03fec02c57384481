"""Runs ipyparallel's controller, which ends with its lease: `python -m jupyter_ddl.cluster.controller`."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from jupyter_ddl.host import files
from jupyter_ddl.host.process_tree import end_with_parent


def main() -> None:
    """Run the controller, with connection files that are whole as soon as they exist."""
    from ipyparallel.controller.app import IPController

    class Controller(IPController):
        def initialize(self, argv: list[str] | None = None) -> None:
            # With CURVE ipyparallel would leave the messages unsigned, and every reader and writer warns of that.
            self.config.Session.key = secrets.token_hex(32).encode()
            super().initialize(argv)

        def save_connection_dict(self, fname: str, cdict: dict[str, Any]) -> None:
            # ipyparallel writes in place: ranks and kernel, which wait for the file to exist, found it empty.
            files.replace(Path(self.profile_dir.security_dir, fname), json.dumps(cdict, indent=2))

    Controller.launch_instance()


if __name__ == "__main__":
    # Before ipyparallel's import, which takes a while.
    end_with_parent()
    # Its heartbeat monitor is a forked process, which does not inherit that.
    os.register_at_fork(after_in_child=end_with_parent)
    main()
