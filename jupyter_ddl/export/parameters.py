"""Reads parameters as they are written on a command line, and makes the points of a sweep of them."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_POINTS = 10_000


def value_of(text: str) -> Any:
    """Return the number, truth value, None, list or text that is written, as papermill's `-p` takes it."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def points_of(given: Sequence[tuple[str, str]], sweeps: Sequence[str], known: Collection[str]) -> list[dict[str, Any]]:
    """Return the parameters of each execution: every combination of what is swept, in the order of the options.

    Args:
        given: names and values, the same for all.
        sweeps: each "NAME=VALUE,VALUE,...".
        known: the names that the notebook's cell of parameters sets.

    Raises:
        InvalidInput: a sweep is written in another way, a name is given twice or unknown, or there are too many points.

    Example:
        >>> points_of([("epochs", "2")], ["rate=0.1,0.01"], {"epochs", "rate"})
        [{'epochs': 2, 'rate': 0.1}, {'epochs': 2, 'rate': 0.01}]
    """
    axes = [_axis(sweep) for sweep in sweeps]
    names = [name for name, _ in given] + [name for name, _ in axes]
    for name in names:
        _check_name(name, names, known)
    same = {name: value_of(text) for name, text in given}
    count = 1
    for _, values in axes:
        count *= len(values)
    if count > MOST_POINTS:
        raise InvalidInput(f"A sweep has at most {MOST_POINTS:,} points.", f"{count:,}", "Sweep fewer values.")
    combinations = itertools.product(*(values for _, values in axes))
    return [same | dict(zip((name for name, _ in axes), values, strict=True)) for values in combinations]


def _axis(sweep: str) -> tuple[str, list[Any]]:
    name, is_given, texts = sweep.partition("=")
    values = [value_of(text) for text in texts.split(",")]
    if not is_given or not name or "" in values:
        raise InvalidInput("A sweep is written as NAME=VALUE,VALUE.", repr(sweep), "Write --sweep rate=0.1,0.01.")
    return name, values


def _check_name(name: str, names: Sequence[str], known: Collection[str]) -> None:
    if names.count(name) > 1:
        raise InvalidInput("A parameter is given once.", f"{name} twice", "Leave one out.")
    if name not in known:
        there = f"whose cell has {', '.join(sorted(known))}" if known else "which has no cell with the tag `parameters`"
        raise InvalidInput(
            "A parameter must be set in the notebook's cell with the tag `parameters`.",
            f"{name}, for a notebook {there}",
            "Set it there, with the value that it has without an option.",
        )
