"""Writes the pages that are made from the code into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import cli, paths
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser
from jupyter_ddl.kernel.magics.distributed import distributed_parser
from site_pages import api, benchmarks, faults, parsers, project, variables

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
_MAGICS = """\
# Magics

`%load_ext jupyter_ddl` defines them. `%ddl -h`, `%ddl start -h` and `%%distributed -h` print the same in a notebook;
[commands](../commands.md) has them by task. While `%ddl auto on` sends each cell without a magic to the ranks, a cell
that begins with `%%local` runs in the kernel.
"""
_COMMANDS = """\
# Commands

`jupyter ddl --help` lists them, and `jupyter ddl run --help` prints what one takes; [commands](../commands.md) has them
by task.
"""


def pages() -> dict[str, str]:
    """Return each page's text by the name of its file."""
    magics = [*parsers.commands(distributed_parser()), *parsers.commands(ddl_parser())]
    return {
        "magics.md": _page(_MAGICS, magics),
        "commands.md": _page(_COMMANDS, parsers.commands(cli.command_parser())),
        "variables.md": variables.render(variables.variables(Path(paths.__file__).read_text())),
        "python.md": api.render(),
        "errors.md": api.render_errors(),
        "faults.md": faults.render(),
        "benchmarks.md": benchmarks.render(ROOT),
        "changelog.md": project.from_root((ROOT / "CHANGELOG.md").read_text()),
        "contributing.md": project.from_root((ROOT / "CONTRIBUTING.md").read_text()),
    }


def write(folder: Path) -> None:
    """Write the pages; a file that has its text already keeps its time, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def _page(introduction: str, found: Iterable[parsers.Command]) -> str:
    return "\n\n".join([introduction, *(parsers.render(command) for command in found)]) + "\n"
