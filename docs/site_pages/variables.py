"""Reads the environment variables, and the comment of each, of the module that names them all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from site_pages.parsers import escaped, table

if TYPE_CHECKING:
    from collections.abc import Iterable

# The comments in jupyter_ddl/paths.py above the two groups.
USERS = "Users and sites set these."
OWN = "jupyter_ddl sets these for its own processes."
_LINE = re.compile(r'^[A-Z_]+_VARIABLE = "(?P<name>JUPYTER_DDL_[A-Z_]+)"(?:  # (?P<comment>.+?))?(?:  # noqa.*)?$')


@dataclass(frozen=True)
class Variable:
    """An environment variable of jupyter_ddl's.

    Attributes:
        name: e.g. "JUPYTER_DDL_CACHE".
        meaning: what its comment says.
        group: the comment above its group.
    """

    name: str
    meaning: str
    group: str


def variables(source: str) -> list[Variable]:
    r"""Return the variables that a module's text defines, in its order.

    Args:
        source: the text of `jupyter_ddl/paths.py`.

    Raises:
        ValueError: one has no comment, or stands in no group.

    Example:
        >>> variables('# Users and sites set these.\nCACHE_VARIABLE = "JUPYTER_DDL_CACHE"  # built wheels')
        [Variable(name='JUPYTER_DDL_CACHE', meaning='built wheels', group='Users and sites set these.')]
    """
    found = []
    group = ""
    for line in source.splitlines():
        if line.removeprefix("# ") in (USERS, OWN):
            group = line.removeprefix("# ")
        match = _LINE.match(line)
        if match is None:
            continue
        if not group or match["comment"] is None:
            raise ValueError(
                f"A variable has a comment, and stands in a group. Received: {line}. Write what it sets behind it, "
                f'below "# {USERS}" or "# {OWN}".'
            )
        found.append(Variable(match["name"], match["comment"], group))
    return found


def render(found: Iterable[Variable]) -> str:
    """Return the page of the variables."""
    found = list(found)
    parts = ["# Variables", "Every environment variable that jupyter_ddl reads under a name of its own."]
    for group in (USERS, OWN):
        rows = [(f"`{one.name}`", escaped(one.meaning)) for one in found if one.group == group]
        parts += [f"## {group.removesuffix('.')}", table(("variable", "sets" if group == USERS else "has"), rows)]
    return "\n\n".join(parts) + "\n"
