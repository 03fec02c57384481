"""Ends iterators over a tf.data.Dataset in threads of their own.

TensorFlow ends an iterator where Python drops its last reference, in the thread that does so, and waits there for the
iterator's own threads. That takes long in two cases. One is an element that is still being made. The other is a race
in TensorFlow: the thread that tunes the pipeline sleeps for as long as the iterator has lived, 60 seconds at most, and
is woken *before* the flag that it checks says that it must end. It sleeps again, and the thread that dropped the
iterator waits for it with Python's lock held: the rank answers no request, at the end of a loop or at an interrupt. (A
third of 60 pipelines that ran for 0.35 s on two idle cores, 57 of 60 on one core.)

So what keeps an iterator is put into a queue of TensorFlow's before Python drops it, and a thread of its own drops that
queue: an operation destroys it, and TensorFlow runs operations without Python's lock. (An eager tensor that Python
drops is freed with the lock held, in any thread.)

Source: tensorflow 2.21, core/framework/model.cc (Model::OptimizeLoop: the callback notifies, the loop asks IsCancelled)
and cancellation.cc (StartCancelWithStatus: `is_cancelled_` is set after the callbacks have run).

Runs on: every rank.
"""

from __future__ import annotations

import functools
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.patching import Layer, instead, patch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def install(tensorflow: ModuleType) -> None:
    """Have iterators end in a thread of their own. Does nothing where TensorFlow's iterators end in another way."""
    try:
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    except ImportError:
        # Private to TensorFlow, which may move it: iterators then end as they always did.
        return
    if not hasattr(OwnedIterator, "__del__"):
        patch(OwnedIterator, "__del__", _taking_over(_ends(tensorflow), tensorflow), Layer.DATA, instead)


@functools.cache
def _ends(tf: ModuleType) -> SimpleQueue[tuple[Any, Any]]:
    """Return what takes iterators to their end: TensorFlow's queue that keeps one, and its dataset."""
    ends: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    threading.Thread(target=_end_each, args=(ends, tf), name="jupyter_ddl iterators", daemon=True).start()
    return ends


def _taking_over(ends: SimpleQueue[tuple[Any, Any]], tf: Any) -> Callable[[Any], None]:
    """Return what Python calls when it drops an iterator."""
    # Bound here: where Python ends, a module's globals may be None already. Seen with Python 3.10.
    is_finalizing = sys.is_finalizing

    def take_over(iterator: Any) -> None:
        attributes = vars(iterator)
        resource = attributes.get("_iterator_resource")
        # An iterator within a graph is symbolic. At Python's exit no thread would end it any more. Strategies of
        # tf.distribute have one for each device: TensorFlow's queues are the CPUs' alone.
        if not hasattr(resource, "numpy") or is_finalizing() or ":CPU:" not in resource.device:
            return
        queue = _queue_with(resource, tf)
        try:
            # Python's own reference first: the thread that drops the last one waits.
            del resource, attributes["_iterator_resource"]
        finally:
            # The dataset has the Python functions that the iterator's threads may still call.
            ends.put((queue, attributes.get("_dataset")))

    return take_over


def _queue_with(resource: Any, tf: Any) -> Any:
    """Return a queue of TensorFlow's that keeps what an eager tensor refers to."""
    # Python may drop an iterator anywhere, also within the tracing of a function. A strategy has several CPUs, or those
    # of other processes: the queue is where the iterator is.
    with tf.init_scope(), tf.device(resource.device):
        queue = tf.queue.FIFOQueue(1, [tf.resource])
        queue.enqueue(resource)
    return queue


def _end_each(ends: SimpleQueue[tuple[Any, Any]], tf: Any) -> None:
    def end(queue: Any, _dataset: Any) -> None:
        tf.raw_ops.DestroyResourceOp(resource=queue.queue_ref, ignore_lookup_error=True)

    while True:
        # A thread for each: one that waits for an element that never comes must not keep the next one's memory. Started
        # here, since Python may drop an iterator anywhere, even where no thread can be started.
        threading.Thread(target=end, args=ends.get(), name="jupyter_ddl iterator", daemon=True).start()
