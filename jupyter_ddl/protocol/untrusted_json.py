"""Parses JSON from any source: everything that is wrong with it is a `ValueError`.

Runs on: kernel, Jupyter server, terminal, lease and every rank.
"""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 64
"""Levels of a JSON value: code that walks through it is recursive."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of some JSON.

    Raises:
        ValueError: it is none, or is nested deeper than MAX_DEPTH.
    """
    too_deep = f"JSON must not be nested more than {MAX_DEPTH} levels deep."
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(too_deep) from error
    if may_be_deep(text) and _depth(value) > MAX_DEPTH:
        raise ValueError(too_deep)
    return value


def may_be_deep(text: str | bytes) -> bool:
    """Return whether JSON may be nested deeper than MAX_DEPTH: what has few brackets cannot."""
    brackets = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    return brackets > MAX_DEPTH


def _depth(value: Any) -> int:
    """Return how deep a JSON value is nested, as far as one level more than may be."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth
