"""Serves TensorFlow 1's sessions, by which Keras programs chose a GPU and its memory.

The ranks' start-up has done that: each rank sees its own GPU alone, and memory grows as it is needed. So the
configuration is accepted, and a session exists only where a program computes with it. Eager execution stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.patching import Layer, instead, patch
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.devices import follow, without_device
from jupyter_ddl.legacy.learning_phase import forget
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import add, add_missing, wrap_method

if TYPE_CHECKING:
    from types import ModuleType

# TensorFlow 1's names that mean under eager execution what they meant, or nothing.
_SAME = (
    "GPUOptions",
    "OptimizerOptions",
    "RunOptions",
    "app",
    "enable_resource_variables",
    "enable_v2_behavior",
    "flags",
    "get_default_graph",
    "gfile",
    "global_variables_initializer",
    "initialize_all_variables",
    "local_variables_initializer",
    "logging",
    "reset_default_graph",
    "set_random_seed",
    "tables_initializer",
    "trainable_variables",
    "global_variables",
)
_current: list[Any] = []
_in_v1: dict[str, Any] = {}


def patch_sessions(tf: ModuleType) -> None:
    """Have `tf.Session` and `tf.compat.v1.Session` begin only when a program computes with them."""
    # TensorFlow's own functions, such as MonitoredTrainingSession, begin sessions too.
    wrap_method(
        tf.compat.v1.Session.__base__,
        "__init__",
        lambda stock, self, target="", graph=None, config=None: stock(self, target, graph, without_device(tf, config)),
    )
    late = _late_class(tf, tf.compat.v1.Session)
    outer = type("Session", (late,), {"__enter__": lambda self: self, "__exit__": lambda *_: None})
    _in_v1.update(Session=late, InteractiveSession=late)
    patch_v1(tf.compat.v1)
    _serve(tf, {"Session": ("Session", outer), "InteractiveSession": ("Session", outer)})


def patch_v1(v1: ModuleType) -> None:
    """Change the module `tf.compat.v1`, which Python makes again for `import tensorflow.compat.v1`."""
    for name, value in _in_v1.items():
        add(v1, name, value)


def patch_configuration(tf: ModuleType) -> None:
    """Serve `tf.ConfigProto` and what programs wrote beside it."""
    old = {name: ("TensorFlow 1 names", getattr(tf.compat.v1, name)) for name in _SAME if hasattr(tf.compat.v1, name)}
    _serve(tf, {"ConfigProto": ("ConfigProto", tf.compat.v1.ConfigProto), **old})
    add_missing(tf.random, "set_random_seed", _set_random_seed)


def patch_eager_execution(tf: ModuleType) -> None:
    """Have `tf.enable_eager_execution(config=...)` be accepted where it holds already."""
    stock = tf.compat.v1.enable_eager_execution

    def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
        say("enable_eager_execution")
        if tf.executing_eagerly():
            follow(tf, config)
        else:
            stock(config, device_policy, execution_mode)

    _in_v1["enable_eager_execution"] = enable_eager_execution
    patch_v1(tf.compat.v1)
    _serve(tf, {"enable_eager_execution": (None, enable_eager_execution)})


def serve_backend(_keras: ModuleType) -> None:
    """Serve `set_session` and `get_session` of keras.backend, and the modules that they were imported from."""
    functions = {
        "set_session": set_session,
        "get_session": get_session,
        "manual_variable_initialization": lambda _value: None,
    }
    for name, function in functions.items():
        names.move("backend", name, "set_session", lambda _, function=function: function)  # type: ignore[misc]
    names.retire("backend.tensorflow_backend", "backend", "tensorflow_backend")
    names.retire("backend.common", "backend", "tensorflow_backend")


def set_session(session: Any) -> None:
    """Accept a session: its configuration is what start-up has done."""
    _current[:] = [session]


def get_session(*_: Any) -> Any:
    """Return the session that was set, or one that begins when it is used."""
    if not _current:
        _current.append(import_module("tensorflow").compat.v1.Session())
    return _current[0]


def forget_session() -> None:
    """Forget the session, as `K.clear_session()` did."""
    _current.clear()
    forget()


def _set_random_seed(seed: int) -> None:
    say("TensorFlow 1 names")
    import_module("tensorflow").random.set_seed(seed)


def _serve(tf: ModuleType, values: dict[str, tuple[str | None, Any]]) -> None:
    """Have the module `tensorflow` answer for names that it no longer has."""
    served: dict[str, tuple[str | None, Any]] = vars(tf).setdefault("_names_of_tensorflow_1", {})
    served.update({name: value for name, value in values.items() if name not in vars(tf)})

    patch(tf, "__getattr__", _Answer(served), Layer.NAMES, instead)


@dataclass
class _Answer:
    """Answers for the names that the module `tensorflow` does not have.

    Attributes:
        served: by name, the row whose sentence is printed, and the value.
    """

    served: dict[str, tuple[str | None, Any]]

    def __call__(self, name: str) -> Any:
        if name not in self.served:
            raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")
        row, value = self.served[name]
        if row is not None:
            say(row)
        return value


def _late_class(tf: ModuleType, stock: Any) -> Any:
    """Return a session's class whose sessions begin when they are first computed with."""

    class Session(stock):  # type: ignore[misc]
        """A session that holds no device until it is used."""

        def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
            # Not through TensorFlow's, which would take the device.
            self.__dict__["_asked"] = (target, graph, config)
            if graph is not None or target or not tf.executing_eagerly():
                self._begin()
            else:
                follow(tf, config)

        def _begin(self) -> None:
            target, graph, config = self.__dict__.pop("_asked")
            super().__init__(target, graph, config)

        def __getattr__(self, name: str) -> Any:
            # TensorFlow's methods read what its __init__ sets.
            if "_asked" not in self.__dict__ or name.startswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._begin()
            return getattr(self, name)

        @property
        def graph(self) -> Any:
            """The graph that the session computes, or would."""
            return tf.compat.v1.get_default_graph() if "_asked" in self.__dict__ else super().graph

        def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
            """Return the values of what is computed already; compute the rest."""
            parts = tf.nest.flatten(fetches)
            if feed_dict is None and all(_is_computed(tf, part) for part in parts):
                return tf.nest.map_structure(lambda part: None if part is None else part.numpy(), fetches)
            return super().run(fetches, feed_dict, options, run_metadata)

        def close(self) -> None:
            """End the session, if it has begun."""
            if "_asked" not in self.__dict__:
                super().close()

        def __del__(self) -> None:
            if "_asked" not in self.__dict__:
                super().__del__()

    return Session


def _is_computed(tf: ModuleType, part: Any) -> bool:
    """Return whether this is a value, or what stands for an initialiser under eager execution: nothing."""
    if part is None:
        return True
    # A graph's own variable is none: `numpy` of one works under eager execution alone.
    is_value = tf.executing_eagerly() or not isinstance(part, tf.Variable)
    return bool(is_value and tf.is_tensor(part) and hasattr(part, "numpy"))
