"""Builds the browser's part into a wheel; `make` does so for a checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SHARE = "share/jupyter/labextensions/jupyter-ddl"


class BrowserBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs npm, unless both bundles are there, as they are in an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before hatchling collects the files."""
        if version == "editable":
            # `make` links what it builds, and so a checkout never has a copy that is behind it.
            return
        folder = Path(self.root) / "labextension"
        dashboard = Path(self.root) / "jupyter_ddl" / "views" / "static" / "dashboard.js"
        extension = folder / "built"
        are_built = dashboard.is_file() and (extension / "package.json").is_file()
        if not are_built or (folder / "node_modules").is_dir():
            self._build(folder)
        build_data["artifacts"] += ["jupyter_ddl/views/static/*", "labextension/built/**"]
        if self.target_name == "wheel":
            build_data["shared_data"][str(extension)] = _SHARE

    def _build(self, folder: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(
                "A wheel must hold the dashboard and the panel, which are built with npm. Received: no npm on PATH. "
                "Install Node.js 20 or newer, or install a released wheel."
            )
        if not (folder / "node_modules").is_dir():
            subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
        subprocess.run([npm, "run", "build"], cwd=folder, check=True)
