"""Refuses names of Horovod's for which there is nothing, where a program uses them.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any, NoReturn

from jupyter_ddl.errors import InvalidInput


class Refused:
    """A name that cannot be used on this backend.

    Args:
        name: as programs write it.
        why: as a sentence.
        remedy: what to write instead, as a sentence.
    """

    def __init__(self, name: str, why: str, remedy: str) -> None:
        self._told = why, f"{name}", remedy

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raise.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(*self._told)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise for an attribute, as of a module.

        Raises:
            InvalidInput: always, but for attributes by which Python asks what it is.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        raise InvalidInput(*self._told)
