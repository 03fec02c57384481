"""Defines what becomes of lost ranks, as a start and a restart take it.

Runs on: kernel.
"""

from __future__ import annotations

from typing import Literal, cast

from jupyter_ddl.errors import InvalidInput

SHRINK = "shrink"
# Whether lost ranks are replaced without being asked; "shrink": without a host that was lost.
Rebuild = bool | Literal["shrink"]
# As `--rebuild` writes it.
BY_OPTION: dict[str, Rebuild] = {"auto": True, "never": False, "shrink": "shrink"}


def checked_rebuild(value: object) -> Rebuild:
    """Return what becomes of lost ranks.

    Raises:
        InvalidInput: it is none of the choices.
    """
    if not isinstance(value, bool) and value != SHRINK:
        raise InvalidInput(
            "rebuild must be True, False or 'shrink'.",
            f"rebuild={value!r}",
            "Pass rebuild='shrink' to leave out a host that was lost.",
        )
    return cast("Rebuild", value)
