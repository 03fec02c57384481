"""Refuses names of Horovod's that Keras's backend has nothing for, where a program uses them.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any, NoReturn

import keras

from jupyter_ddl.errors import InvalidInput

# Backend -> its name, and what exchanges for it.
_LIBRARIES = {"torch": ("PyTorch", "torch.distributed"), "jax": ("JAX", "JAX")}


def join() -> NoReturn:
    """Raise: of `interface.Ops`, where the library that exchanges has no such operation.

    Raises:
        InvalidInput: always.
    """
    backend, library = _LIBRARIES[keras.config.backend()]
    raise InvalidInput(
        f"hvd.join is Horovod's, and Keras on {backend} exchanges by {library}.",
        "hvd.join()",
        "Train with fit, which waits for ranks that have no batch left; or give all ranks as many batches.",
    )


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
