"""Finds the browser's part of the dashboard: the files that labextension/ is bundled into."""

from __future__ import annotations

from pathlib import Path

from jupyter_ddl.errors import DashboardMissing

_STATIC = Path(__file__).parent / "static"
ESM = _STATIC / "dashboard.js"
CSS = _STATIC / "dashboard.css"


def are_built() -> bool:
    """Return whether the files are there."""
    return ESM.is_file() and CSS.is_file()


def check_built() -> None:
    """Raise unless the files are there.

    Raises:
        DashboardMissing: they were not built.
    """
    if not are_built():
        raise DashboardMissing(
            f"The dashboard's browser part must be built. Received: no {ESM.name} in {ESM.parent}. "
            "Run `make dashboard` in the repository (needs Node.js), or install a wheel, which has it."
        )
