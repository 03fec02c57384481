"""Defines what tells a run from others: its notebook, cell and first line, and the commit of the notebook's folder."""

from __future__ import annotations

from typing import Any

_MOST_CHARACTERS = 1_000
_MOST_NUMBER = 1 << 31
LINE_CHARACTERS = 120


def first_line(code: str) -> str | None:
    """Return the first line of code that is not empty, its beginning where it is long; None where there is none."""
    line = next((line.strip() for line in code.splitlines() if line.strip()), None)
    if line is None or len(line) <= LINE_CHARACTERS:
        return line
    return line[: LINE_CHARACTERS - 1] + "…"


def origin_in(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `RunRecord` that run.json has of a run's origin; None for what is missing or broken."""
    texts = {name: content.get(name) for name in ("notebook", "cell_id", "first_line", "git_commit")}
    number = content.get("cell_number")
    is_number = isinstance(number, int) and not isinstance(number, bool) and 0 < number < _MOST_NUMBER
    return {
        **{name: text[:_MOST_CHARACTERS] if isinstance(text, str) else None for name, text in texts.items()},
        "cell_number": number if is_number else None,
    }
