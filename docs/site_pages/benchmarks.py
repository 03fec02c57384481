"""Lists the benchmarks, of their docstrings, and which of them `make bench` runs."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from site_pages.parsers import escaped, table

if TYPE_CHECKING:
    from pathlib import Path

_INTRODUCTION = """\
# Benchmarks

Each is one command of a clone. `make bench` runs those that are marked, one after the other, on a machine that should
do nothing else. [Speed](../performance.md) has the figures, and what they were measured on; `make soak` is for faults,
and measures nothing.
"""
_LOOP = re.compile(r"^bench:.*?for name in (.*?); do", re.MULTILINE | re.DOTALL)


def render(root: Path) -> str:
    """Return the page.

    Args:
        root: of the repository.
    """
    run = in_make_bench((root / "Makefile").read_text())
    rows = [
        (f"`python -m benchmarks.{name}`", escaped(summary), "yes" if name in run else "")
        for name, summary in benchmarks(root / "benchmarks").items()
    ]
    return f"{_INTRODUCTION}\n{table(('command', 'measures', '`make bench`'), rows)}\n"


def benchmarks(folder: Path) -> dict[str, str]:
    """Return what each program of a folder measures, by its name: the first paragraph of its docstring.

    Parts are left out: programs that others start with arguments, and that compare nothing by the harness.
    """
    texts = {file.stem: file.read_text() for file in sorted(folder.glob("*.py"))}
    found = {}
    for name, text in texts.items():
        is_named = any(_names(other, name) for stem, other in texts.items() if stem != name)
        is_part = is_named and "sys.argv" in text and "benchmarks.harness" not in text
        if "__main__" in text and not is_part:
            found[name] = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].replace("\n", " ")
    return found


def _names(text: str, name: str) -> bool:
    """Return whether a program names another as one to start, or to import."""
    return re.search(rf"benchmarks\.{name}\b|\b{name}\.py\b|\bbenchmarks import .*\b{name}\b", text) is not None


def in_make_bench(makefile: str) -> list[str]:
    r"""Return the benchmarks that `make bench` runs, in its order.

    Example:
        >>> in_make_bench("bench: x\n\tfor name in start rebuild \\\n\t\tdispatch; do")
        ['start', 'rebuild', 'dispatch']
    """
    found = _LOOP.search(makefile)
    return re.findall(r"\w+", found[1]) if found else []
