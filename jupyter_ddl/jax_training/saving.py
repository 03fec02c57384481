"""Saves models on rank 0; the other ranks wait for the file, and rank 0 waits for none.

So a program may also save on rank 0 alone. Rank 0 notes each file in JAX's coordination service.

Runs on: every rank.
"""

from __future__ import annotations

import os
import time
import zlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import jax
from jax._src import distributed

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.jax_training.arrays import variables_of
from jupyter_ddl.jax_training.processes import is_auto, tag_of_cell
from jupyter_ddl.training.backends.jax_sharded import whole_on_first_rank

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S = 0.02
_saving: ContextVar[bool] = ContextVar("jupyter_ddl_jax_saving", default=False)


class _Saves:
    """How often each file was saved on this rank, in a cell."""

    def __init__(self) -> None:
        self.tag: int | None = None
        self.counts: dict[str, int] = {}

    def next_key(self, path: str) -> str:
        """Return the key of the next save to a path."""
        if self.tag != tag_of_cell():
            self.tag = tag_of_cell()
            self.counts.clear()
        self.counts[path] = number = self.counts.get(path, 0) + 1
        return f"jupyter_ddl/saved/{self.tag}/{zlib.crc32(path.encode()):08x}/{number}"


def save(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Save on rank 0; another rank returns when the file is there. Collective where the model is sharded."""
    if not is_auto() or _saving.get():
        return stock(*args, **kwargs)
    key = rank_state.here().part(_Saves).next_key(_path_in(args, kwargs))
    with whole_on_first_rank(variables_of(args[0] if args else kwargs["model"])):
        return _saved(key, stock, *args, **kwargs)


def _saved(key: str, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if jax.process_index() > 0:
        _wait_for(key)
        return None
    token = _saving.set(True)
    saved = "no"
    try:
        answer = stock(*args, **kwargs)
        saved = "yes"
        return answer
    finally:
        _saving.reset(token)
        distributed.global_state.client.key_value_set(key, saved)


def _path_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = (*args, *kwargs.values())
    return next((os.fspath(each) for each in given if isinstance(each, str | os.PathLike)), "")


def _wait_for(key: str) -> None:
    """Wait until rank 0 has saved.

    Raises:
        InvalidInput: it could not; it says why.
    """
    while True:
        # In Python, where an interrupt comes through.
        try:
            saved = distributed.global_state.client.key_value_try_get(key)
            break
        except jax.errors.JaxRuntimeError as error:
            if "NOT_FOUND" not in str(error):
                raise
        time.sleep(_POLL_S)
    if saved != "yes":
        raise InvalidInput("Rank 0 saves the model for all ranks.", "an error there", "See rank 0's own error.")
