"""Reads the names in a list of nodes, as Slurm writes them: `gpu[01-02,07],login`."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NODES = "SLURM_JOB_NODELIST"
_MOST_NODES = 100_000


def expanded(listed: str) -> list[str]:
    """Return the names in a list of Slurm's.

    Raises:
        InvalidInput: it is none.

    Example:
        >>> expanded("gpu[01-02,07],login")
        ['gpu01', 'gpu02', 'gpu07', 'login']
    """
    names = [name for entry in _split(listed) for name in _names(entry, listed)]
    if not names:
        raise _unreadable(listed)
    return names


def _split(listed: str) -> Iterator[str]:
    """Yield the entries between the commas that are in no bracket."""
    yield from (entry for entry in re.split(r",(?![^\[]*\])", listed) if entry)


def _names(entry: str, listed: str) -> Iterator[str]:
    """Yield the names that an entry such as `rack[1-2]node[01-03]` stands for."""
    parts: list[Sequence[str]] = []
    for text in re.split(r"(\[[^\]]*\])", entry):
        if not text.startswith("["):
            if re.search(r"[\[\],\s]", text):
                raise _unreadable(listed)
            parts.append([text])
        else:
            parts.append([number for span in text[1:-1].split(",") for number in _numbers(span, listed)])
    for name in product(*parts):
        yield "".join(name)


def _numbers(span: str, listed: str) -> Iterator[str]:
    """Yield the numbers of `07` or `01-03`, with their leading zeros."""
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", span)
    if found is None:
        raise _unreadable(listed)
    first, last = int(found[1]), int(found[2] or found[1])
    if last - first >= _MOST_NODES:
        raise _unreadable(listed)
    for number in range(first, last + 1):
        yield f"{number:0{len(found[1])}d}"


def _unreadable(listed: str) -> InvalidInput:
    return InvalidInput(
        "Slurm's variables must be as Slurm writes them.",
        f"{NODES}={listed[:200]}",
        "Unset SLURM_JOB_ID to start ranks on this host, or name the hosts with -H.",
    )
