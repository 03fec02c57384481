"""Builds the dashboard's browser part into a wheel; `make` does so for a checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs npm, unless the bundle is there, as it is in an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before hatchling collects the files."""
        folder = Path(self.root) / "labextension"
        bundle = Path(self.root) / "jupyter_ddl" / "views" / "static" / "dashboard.js"
        if version == "editable" or (bundle.is_file() and not (folder / "node_modules").is_dir()):
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(
                "A wheel must hold the dashboard, which is built with npm. Received: no npm on PATH. Install Node.js "
                "20 or newer, or install a released wheel."
            )
        if not (folder / "node_modules").is_dir():
            subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
        subprocess.run([npm, "run", "build"], cwd=folder, check=True)
        build_data["artifacts"].append("jupyter_ddl/views/static/*")
