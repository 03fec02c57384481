"""Finds the documentation's pages, and rewrites links of the course for a folder that has both beside each other.

A checkout has `notebooks/` beside `docs/`; a reader's folder has the notebooks, and the pages in `docs` below them.

Runs on: a terminal.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# A wheel has them beside this module, a checkout at its top.
_FOLDERS = (Path(__file__).parent / "docs", Path(__file__).parents[2] / "docs")
_FIRST = "index.md"
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\[\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
# Of a picture for each theme.
_IMAGE = re.compile(r'<(?:source|img)\b[^>]*? (?:srcset|src)="(?![a-z]+:)([^"]+)"')
_NOTEBOOKS = "../notebooks/"


def course_pages() -> dict[str, Path]:
    """Return the pages, and the pictures and files that they link, by their paths below `docs`.

    Raises:
        InvalidInput: this installation has none.
    """
    for folder in _FOLDERS:
        if (folder / _FIRST).is_file():
            pages = sorted(folder.glob("*.md"))
            linked = {link for page in pages for link in relative_links(page.read_text("utf-8"))}
            files = {*(page.name for page in pages), *(link for link in linked if not link.startswith("../"))}
            return {name: folder / name for name in sorted(files)}
    raise InvalidInput(
        "The documentation's pages are a part of jupyter_ddl.",
        f"an installation without {_FOLDERS[0]}",
        "Install it again: pip install --force-reinstall --no-deps jupyter_ddl",
    )


def relative_links(text: str) -> Iterator[str]:
    """Yield the path of each relative link and picture of a page, without its anchor; code has none."""
    without_code = _CODE.sub("", text)
    for found in _LINK.finditer(without_code):
        yield found[2]
    for found in _IMAGE.finditer(without_code):
        yield found[1]


def page_for_readers(text: str, notebooks: Collection[str]) -> str:
    """Return a page with its links to notebooks led to where a reader has these; other links out of `docs` become text.

    Args:
        text: the page.
        notebooks: the names of the notebooks that the reader has.

    Example:
        >>> page_for_readers("[1](../notebooks/1.ipynb), [hpc](hpc.md), [words](../CONTRIBUTING.md)", ["1.ipynb"])
        '[1](../1.ipynb), [hpc](hpc.md), words'
    """

    def led(found: re.Match[str]) -> str:
        label, path, anchor = found[1], found[2], found[3] or ""
        if not path.startswith("../"):
            return found[0]
        name = path.removeprefix(_NOTEBOOKS)
        return f"[{label}](../{name}{anchor})" if name in notebooks else label

    return _LINK.sub(led, text)


def notebook_for_readers(content: bytes) -> bytes:
    """Return a notebook's file with its links to the pages led to the folder `docs` beside it."""
    return content.replace(b"](../docs/", b"](docs/")
