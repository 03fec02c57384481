"""Renders the table of patches as text and JSON: what we replace in libraries, and why."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.patch_table import PATCHES, VERSIONS, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.protocol.patch_table import Declared

_TITLES = {
    Layer.RANK: "What makes a process a rank",
    Layer.NAMES: "What Keras's public modules hold and answer for (JUPYTER_DDL_LEGACY=0 leaves it out)",
    Layer.DATA: "Data sets and pipelines",
    Layer.FIT: "Training with Horovod",
    Layer.AUTO: "--auto",
    Layer.DDL: "IBM's import ddl",
    Layer.MEMORY: "Training in less memory: `--memory`",
    Layer.LEGACY: "Old spellings of Keras and TensorFlow (JUPYTER_DDL_LEGACY=0 leaves them out)",
    Layer.KERNEL: "In the notebook's process, and not on ranks",
}
_WIDTH = 100


def patches_text() -> str:
    """Return the table, a block for each layer, the innermost first."""
    lines = ["These methods and functions are replaced, and no others. Outer layers are called first."]
    lines += [f"Made for: {', '.join(f'{library} {versions}' for library, versions in VERSIONS.items())}."]
    for layer in Layer:
        lines += ["", f"{layer.name}  {_TITLES[layer]}"]
        for row in PATCHES:
            if row.layer is layer:
                lines += _lines_of(row)
    return "\n".join(lines)


def patches_json() -> list[dict[str, object]]:
    """Return the table as JSON values."""
    return [
        {
            "owner": row.owner,
            "names": list(row.names),
            "layer": row.layer.name,
            "library": row.library,
            "versions": row.versions,
            "reason": row.reason,
            "passing": row.is_passing,
        }
        for row in PATCHES
    ]


def _lines_of(row: Declared) -> Iterator[str]:
    yield from textwrap.wrap(
        f"{row.owner}: {', '.join(row.names)}", _WIDTH, initial_indent="  ", subsequent_indent="      "
    )
    until = ", until start-up ends" if row.is_passing else ""
    yield f"      {row.library} {row.versions}{until}: {row.reason}"
