"""Sets attributes of a model while Keras makes a function of it. Runs on: every rank."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a model whose step exchanges: no compiler has a kernel for that.
UNCOMPILED = {"_jit_compile": False}


@contextmanager
def attributes_set(model: Any, **ours: Any) -> Iterator[None]:
    """Set attributes of a model in the block, past Keras's own __setattr__, which would track them as its parts."""
    before = {name: model.__dict__[name] for name in ours if name in model.__dict__}
    model.__dict__.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del model.__dict__[name]
        model.__dict__.update(before)
