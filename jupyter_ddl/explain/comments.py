"""Keeps comments inside a call or a list with their arguments when it is rewritten."""

from __future__ import annotations

from typing import Any

import libcst as cst

from jupyter_ddl.modernise.names import code_of


def with_comments(text: str, part: cst.Arg | cst.BaseElement) -> list[str]:
    """Return the line of an argument or an element, with the comments that follow it."""
    behind, *below = _after(part)
    return [f"{text}  {behind}" if behind else text, *below]


def comments_of(part: cst.Arg) -> list[str]:
    """Return the comments that follow an argument."""
    return [*filter(None, _after(part))]


def elements(display: cst.List | cst.Tuple) -> list[str]:
    """Return the lines of a list's elements, each with a comma, and of all comments in it."""
    lines = [*filter(None, _in(getattr(getattr(display, "lbracket", None), "whitespace_after", None)))]
    for element in display.elements:
        bare: Any = element.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        lines += with_comments(f"{code_of(bare)},", element)
    behind, *below = _in(getattr(getattr(display, "rbracket", None), "whitespace_before", None))
    if behind:
        lines[-1] += f"  {behind}"
    return [*lines, *below]


def _after(part: cst.Arg | cst.BaseElement) -> list[str]:
    comma = part.comma
    return _in(comma.whitespace_after if isinstance(comma, cst.Comma) else getattr(part, "whitespace_after_arg", None))


def _in(space: Any) -> list[str]:
    """Return the comment that ends the line, empty for none, and those in the lines below."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return [""]
    behind = space.first_line.comment
    below = [line.comment.value for line in space.empty_lines if line.comment is not None]
    return ["" if behind is None else behind.value, *below]
