"""Parses and renders sets of ranks as users write them: `0,2-3`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

# Nine digits are more ranks than any machine has, and few enough that a range is checked before it is expanded.
_PART = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?")


def compact(ranks: Iterable[int]) -> str:
    """Return ranks as text: ranges where they follow each other, in order, each once.

    >>> compact([3, 0, 2])
    '0,2-3'
    """
    parts: list[str] = []
    first = last = None
    for rank in sorted(set(ranks)):
        if last is not None and rank == last + 1:
            last = rank
            parts[-1] = f"{first}-{last}"
        else:
            first = last = rank
            parts.append(str(rank))
    return ",".join(parts)


def named(ranks: Iterable[int]) -> str:
    """Return ranks as the words within a sentence.

    >>> named([1]), named([3, 0, 2])
    ('rank 1', 'ranks 0,2-3')
    """
    text = compact(ranks)
    return f"rank {text}" if text.isdigit() else f"ranks {text}"


def heading(ranks: Iterable[int]) -> str:
    """Return ranks as the words that begin a heading.

    >>> heading([1]), heading([3, 0, 2])
    ('Rank 1', 'Ranks 0, 2-3')
    """
    return named(ranks).capitalize().replace(",", ", ")


def parse(text: str, world_size: int) -> tuple[int, ...]:
    """Return the ranks that a text such as `0,2-3` names, in order, each once.

    Args:
        text: numbers and rising ranges, separated by commas.
        world_size: how many ranks there are.

    Raises:
        InvalidInput: the text is not of that form, or names a rank that does not exist.
    """
    ranks: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            rule = "Ranks must be numbers and ranges, separated by commas."
            raise InvalidInput(rule, repr(text), "Write them like 0,2-3.")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise InvalidInput("A range of ranks must rise.", repr(part.strip()), f"Write {last}-{first}.")
        if last >= world_size:
            rule = "A rank must be below the world size."
            remedy = f"Ranks here are {compact(range(world_size))}."
            raise InvalidInput(rule, f"rank {last}, world_size={world_size}", remedy)
        ranks.update(range(first, last + 1))
    return tuple(sorted(ranks))
