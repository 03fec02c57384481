"""Defines how much memory a rank may hold, and sizes such as 8GB as profiles write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it

_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([MGT])(i?)B", re.ASCII)
_POWERS = {"M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class MemoryLimit:
    """How much memory each rank may hold, with all that it starts.

    Attributes:
        most_bytes: the most.
        by: who says so, e.g. "the profile default (memory_per_rank = 8GB in /etc/jupyter/jupyter_ddl.d/site.toml)".
    """

    most_bytes: Int64
    by: str


def bytes_of(text: str) -> int:
    """Return a size in bytes: MB, GB and TB by powers of 1000, MiB, GiB and TiB by powers of 1024.

    Raises:
        InvalidInput: it is none, or 0.

    Example:
        >>> bytes_of("8GB"), bytes_of("1.5GiB")
        (8000000000, 1610612736)
    """
    match = _SIZE.fullmatch(text)
    size_bytes = 0
    if match is not None:
        base = 1024 if match[3] else 1000
        size_bytes = round(float(match[1]) * base ** _POWERS[match[2]])
    if size_bytes == 0:
        raise InvalidInput(
            "A size of memory is a number above 0 and one of MB, GB, TB, MiB, GiB and TiB.",
            repr(text[:80]),
            "Write 500MB, 8GB or 7.5GiB.",
        )
    return size_bytes
