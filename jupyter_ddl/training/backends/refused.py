"""Refuses operations of Horovod's that Keras's backend has nothing for, where a program calls them.

Runs on: every rank.
"""

from __future__ import annotations

from typing import NoReturn

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
