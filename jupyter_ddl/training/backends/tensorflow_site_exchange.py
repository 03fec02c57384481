"""Reduces gradients of TensorFlow's by a site's library, which takes NumPy's arrays. Runs on: every rank."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from jupyter_ddl.training.backends.site_exchange import reduced, require_plain, site_exchanger

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import Exchanger


def reduce_group(exchanger: Exchanger, exchange: Any, group: list[Any]) -> list[Any]:
    """Return gradients of one dtype, reduced as an Exchange says, in one collective.

    A graph runs its stateful operations in their order, so ranks enter these in the same one.

    Collective: every rank must call this, or run the operation.
    """
    require_plain(exchange)
    dense = [tf.convert_to_tensor(gradient) for gradient in group]
    sent = [exchange.compression.compress(gradient) for gradient in dense]
    flat = tf.concat([tf.reshape(one, [-1]) for one, _ in sent], axis=0)
    answer = tf.numpy_function(partial(reduced, exchanger, exchange), [flat], flat.dtype, stateful=True)
    sizes = [tf.size(one) for one, _ in sent]
    parts = tf.split(tf.ensure_shape(answer, flat.shape), sizes, num=len(sent))
    return [
        exchange.compression.decompress(_shaped(part, one), context)
        for part, (one, context) in zip(parts, sent, strict=True)
    ]


def broadcast_into(variables: list[Any], root_rank: int, process_set: Any) -> bool:
    """Overwrite TensorFlow's variables by those of a rank, and return whether a site's library has done it."""
    exchanger = site_exchanger()
    if exchanger is None or process_set.process_set_id != 0:
        return False
    for variable in variables:
        variable.assign(exchanger.broadcast(variable.numpy(), root_rank))
    return True


def _shaped(part: Any, like: Any) -> Any:
    return tf.ensure_shape(tf.reshape(part, tf.shape(like)), like.shape)
