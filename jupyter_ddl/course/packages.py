"""Finds the packages that notebooks of the course need and this environment lacks, and the command that installs them.

Runs on: a terminal.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.frameworks import REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# What pip installs for a module, with the bounds of pyproject.toml; others have the package's name.
_INSTALLS = {
    **REQUIREMENTS,
    "libcst": "libcst>=1.5",
    "matplotlib": "matplotlib>=3.8",
    "xgboost": "xgboost-cpu>=2.1",
}
# What needs a module without an import of it in the notebook.
_USES = {"--explain": "libcst", "ddl modernise": "libcst"}
# The ranks have them.
_OURS = {"jupyter_ddl", "ddl"}
_IMPORT = re.compile(r"^\s*(?:import|from) ([A-Za-z_]\w*)", re.MULTILINE)


def missing(notebooks: Sequence[Path]) -> dict[str, list[str]]:
    """Return the modules that notebooks use and that are not installed here, each with the notebooks' numbers.

    Also what programs import that a cell writes: a batch job runs them.

    Args:
        notebooks: their files; one that is no notebook, as a reader may have left it, is skipped.
    """
    found: dict[str, list[str]] = {}
    for notebook in notebooks:
        for module in sorted(set(_modules(notebook))):
            if importlib.util.find_spec(module) is None:
                found.setdefault(module, []).append(notebook.name[:2])
    return found


def missing_text(notebooks: Sequence[Path]) -> str | None:
    """Return which packages are missing, and the command that installs them; None where none is."""
    modules = missing(notebooks)
    if not modules:
        return None
    named = ", ".join(f"{module} (for {', '.join(numbers)})" for module, numbers in modules.items())
    packages = [_requirement(module) for module in modules if module != "horovod"]
    commands = [f"{shlex.quote(sys.executable)} -m pip install {shlex.join(packages)}"] if packages else []
    if "horovod" in modules:
        commands.append("jupyter ddl build-horovod")
    return f"Missing here: {named}. Run: {' && '.join(commands)}"


def _requirement(module: str) -> str:
    if module != "tf_keras":
        return _INSTALLS.get(module, module)
    try:
        major, minor, *_ = metadata.version("tensorflow").split(".")
    except metadata.PackageNotFoundError:
        return "tf-keras"
    # A newer one would replace the TensorFlow for which Horovod was built.
    return f"tf-keras=={major}.{minor}.*"


def _modules(notebook: Path) -> Iterator[str]:
    try:
        cells = json.loads(notebook.read_bytes())["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    for source in sources:
        yield from set(_IMPORT.findall(source)) - _OURS - sys.stdlib_module_names
        yield from (module for use, module in _USES.items() if use in source)
