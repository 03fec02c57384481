"""Renders a docstring in the Google style as Markdown."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TITLES = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Example": "Example",
    "Source": "Source",
}
_HEAD = re.compile(rf"^({'|'.join(_TITLES)}):$")
# "name: text", "*args: text", "name, other: text".
_ITEM = re.compile(r"^(\*{0,2}[\w., ]+?): (.*)$", re.DOTALL)


def render(docstring: str) -> str:
    r"""Return a docstring as Markdown: each section under its name, its items as a list, its example as code.

    Args:
        docstring: cleaned, as `inspect.getdoc` returns it.

    Example:
        >>> print(render("Add.\n\nArgs:\n    x: a number,\n        positive."))
        Add.
        <BLANKLINE>
        **Arguments**
        <BLANKLINE>
        - `x`: a number, positive.
    """
    return "\n\n".join(_rendered(title, body) for title, body in _sections(docstring) if body)


def _sections(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield each section's title and text; what stands before and between sections has no title."""
    title, lines = "", list[str]()
    for line in docstring.splitlines():
        head = _HEAD.match(line)
        ends = bool(title) and bool(line) and not line.startswith(" ")
        if head or ends:
            yield title, textwrap.dedent("\n".join(lines)).strip("\n")
            title, lines = (head[1], []) if head else ("", [])
        if not head:
            lines.append(line)
    yield title, textwrap.dedent("\n".join(lines)).strip("\n")


def _rendered(title: str, body: str) -> str:
    if not title:
        return body
    if title == "Example":
        return f"**Example**\n\n```pycon\n{body}\n```"
    is_list = title in ("Args", "Attributes", "Raises")
    shown = "\n".join(f"- {_item(item)}" for item in _items(body)) if is_list else body
    return f"**{_TITLES[title]}**\n\n{shown}"


def _items(body: str) -> list[str]:
    """Return the items of a section, each in one line."""
    items = list[str]()
    for line in body.splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif line:
            items.append(line)
    return items


def _item(item: str) -> str:
    named = _ITEM.match(item)
    return f"`{named[1]}`: {named[2]}" if named else item
