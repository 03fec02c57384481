"""One text of Python: the codemods in turn, then what is left over."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.modernise.codemods import CODEMODS
from jupyter_ddl.modernise.leftovers import Leftover, leftovers


@dataclass(frozen=True)
class Rewritten:
    """A program in today's spelling, and what of it stays old."""

    code: str
    leftovers: list[Leftover]


def rewrite(code: str, name: str) -> Rewritten:
    """Return a program in today's spelling.

    Args:
        code: its text.
        name: what to call it in an error.

    Raises:
        InvalidInput: it is no Python of today.
    """
    try:
        module = cst.parse_module(code)
    except cst.ParserSyntaxError as error:
        place = f"{name}, line {error.raw_line}"
        raise InvalidInput(
            "A program must be valid Python 3 to be rewritten.",
            f"{place}: {error.message}",
            "Correct that line first; a program of Python 2 takes 2to3 before.",
        ) from error
    known = MetadataWrapper(module)
    for codemod in CODEMODS:
        after = known.visit(codemod())
        # Most codemods find nothing to change, and to learn the names of a program again takes longer than they do.
        if not after.deep_equals(known.module):
            known = MetadataWrapper(after)
    return Rewritten(known.module.code, leftovers(known))
