"""Lets a tf.function trace again after its first call was interrupted, and takes the thread out of every graph.

TensorFlow keeps its record of a function's first trace even where an exception or an interrupt ended that trace. If the
trace had made a variable by then (an optimizer's, at its first `apply`), the next call runs a placeholder that returns
None: a custom loop then trains nothing, silently, and a Keras `fit` ends with "Attr 'Toutput_types' of
'OptionalFromValue' Op passed list of length 0". If it had not, variables that the second trace makes are refused.
Source: tensorflow 2.21, python/eager/polymorphic_function/polymorphic_function.py: `Function._call` passes
`_no_variable_creation_config`, still None, to `tracing_compilation.call_function`, which then calls `lambda *_: None`.

An interrupt may also come while a context manager of TensorFlow's is being entered or left. The graph that is being
traced then stays the thread's default graph: each later cell would build a graph and compute nothing.

Runs on: every rank.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# What TensorFlow keeps of a function's first trace.
_KEPT = ("_created_variables", "_variable_creation_config", "_no_variable_creation_config")
# What we keep of an interrupted trace: its variables, which the program may hold, and their initial values.
_LEFT = "_jupyter_ddl_left"


def install(_tensorflow: ModuleType) -> None:
    """Make functions forget an interrupted first trace. Does nothing with a TensorFlow that keeps it elsewhere."""
    try:
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
    except ImportError:
        # Private to TensorFlow, which may move it: functions then stay as they are.
        return
    if hasattr(Function, "_initialize") and _keeps_its_trace(Function):
        patch(Function, "_initialize", _initialize, Layer.RANK)


def _keeps_its_trace(function: Any) -> bool:
    stock = inspect.unwrap(function._initialize)
    return {*stock.__code__.co_names, *function._call.__code__.co_names}.issuperset(_KEPT)


def _initialize(
    stock: Callable[..., None], function: Any, args: Any, kwds: Any, add_initializers_to: Any = None
) -> None:
    made, initializers = function.__dict__.pop(_LEFT, ([], []))
    try:
        stock(function, args, kwds, add_initializers_to=add_initializers_to)
    except BaseException:  # an interrupt too: an incomplete trace must not be kept
        left = [*made, *(function._created_variables or [])], [*initializers, *(add_initializers_to or [])]
        for name in _KEPT:
            setattr(function, name, None)
        setattr(function, _LEFT, left)
        raise
    # The program's own `if self.v is None` has not made them again: they still wait for their initial values.
    function._created_variables.extend(made)
    if add_initializers_to is not None:
        add_initializers_to.extend(_without_constants(initializers))


def _without_constants(initializers: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Give variables their initial values where these are constants, such as an optimizer's zeros; return the rest.

    TensorFlow lifts the rest out of the interrupted graph. It cannot where all operations of a step wait for its batch,
    as ours do.
    """
    import tensorflow as tf

    rest = []
    for variable, initial in initializers:
        value = tf.get_static_value(initial)
        if value is None:
            rest.append((variable, initial))
            continue
        with tf.init_scope():
            if not tf.raw_ops.VarIsInitializedOp(resource=variable.handle):
                variable.assign(value, read_value=False)
    return rest


def leave_graphs(*_: object) -> None:
    """Take this thread out of the graph of a function that is no longer being traced.

    Called between two cells, when nothing is traced. A graph that the program itself has entered stays.
    """
    ops = sys.modules.get("tensorflow.python.framework.ops")
    context = sys.modules.get("tensorflow.python.eager.context")
    stack = getattr(getattr(ops, "_default_graph_stack", None), "stack", None)
    if context is None or not stack or not stack[-1].building_function:
        return
    while stack and stack[-1].building_function:
        stack.pop()
    running: Any = context.context()
    switches = running.context_switches.stack
    while len(switches) > 1 and (switches[-1].is_building_function or not stack):
        switches.pop()
    if not stack:
        running._thread_local_data.is_eager = context.default_execution_mode == context.EAGER_MODE
