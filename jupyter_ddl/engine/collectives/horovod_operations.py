"""Wraps Horovod's operations for TensorFlow, and keeps TensorFlow from running them while it optimises a graph.

Where all inputs of an operation are constants TensorFlow takes it for one whose answer never changes, and runs it
before the graph: one after another, in an order that differs between ranks, which then wait for each other for ever.
Marked as stateful, which is TensorFlow's own word against that, the operations of a step would run one after another.
Source: tensorflow 2.21, core/grappler/optimizers/constant_folding.cc, HasTPUAttributes; core/framework/op.h,
SetDoNotOptimize.

Runs on: every rank.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.patching import Layer, around, patch

if TYPE_CHECKING:
    from collections.abc import Callable

# Constant folding leaves operations alone that have an attribute whose name begins so.
_NOT_FOLDED = "_tpu_not_folded"


def keep_from_folding(mpi_ops: Any) -> None:
    """Mark the operations that `horovod.tensorflow.mpi_ops` adds to graphs."""
    patch(mpi_ops, "MPI_LIB", _marked, Layer.FIT, around_operations)


def around_operations(library: Any, ours: Callable[..., Any]) -> Any:
    """Return a library of operations that calls `ours(stock, ...)` for each: how `MPI_LIB` is patched."""
    replacements = {
        name: unconverted_around(getattr(library, name), ours) for name in dir(library) if name.startswith("horovod_")
    }
    return SimpleNamespace(**replacements)


def unconverted_around(stock: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement that autograph leaves as it is, where a tf.function calls it.

    Source: tensorflow 2.21, python/autograph/impl/api.py, autograph_artifact. TensorFlow may not be imported yet.
    """
    replacement: Any = around(stock, ours)
    replacement.autograph_info__ = None
    return replacement  # type: ignore[no-any-return]


def _marked(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = stock(*args, **kwargs)
    first = made
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    # Outside of graphs a tensor has none: asked for it, it raises AttributeError.
    operation = getattr(first, "op", None)
    if operation is not None:
        from tensorflow.core.framework.attr_value_pb2 import AttrValue

        operation._set_attr(_NOT_FOLDED, AttrValue(b=True))
    return made
