"""Restores names of Keras 2 that take a few lines of Keras 3."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.learning_phase import learning_phase
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import add_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

_ROW = "other names of Keras 2"


def serve_losses(keras: ModuleType) -> None:
    """Have `tf.keras.losses` and `tf.keras.metrics` answer for the functions that `keras.losses` alone still has."""
    for module in ("losses", "metrics"):
        tree = import_module(f"{names.TF_TREE}.{module}")
        for thing in vars(keras.losses):
            if not thing.startswith("_") and thing.islower() and not hasattr(tree, thing):
                names.move(module, thing, "losses of keras", lambda _, thing=thing: getattr(keras.losses, thing))  # type: ignore[misc]
        for thing in ("cosine", "cosine_proximity"):
            names.move(module, thing, "losses of keras", lambda _: keras.losses.cosine_similarity)


def serve_phases(_keras: ModuleType) -> None:
    """Serve `K.in_train_phase` and `K.in_test_phase`."""
    names.move("backend", "in_train_phase", "in_train_phase", lambda _: in_train_phase)
    names.move("backend", "in_test_phase", "in_train_phase", lambda _: in_test_phase)


def serve_backend(_keras: ModuleType) -> None:
    """Serve functions of `keras.backend` that neither `keras` nor `tf.keras` has, public and private."""
    public: dict[str, Callable[..., Any]] = {
        "learning_phase_scope": learning_phase_scope,
        "normalize_batch_in_training": normalize_batch_in_training,
        "placeholder": placeholder,
        "print_tensor": print_tensor,
        "random_binomial": random_binomial,
        # Names that Keras gives to layers begin again: dense, dense_1, ...
        "reset_uids": import_module("keras.src.utils.naming").reset_uids,
    }
    private: dict[str, Callable[..., Any]] = {
        "_to_tensor": _to_tensor,
        "_get_available_gpus": _get_available_gpus,
        "_is_tf_1": lambda: False,
    }
    for row, functions in (("backend functions", public), ("private backend functions", private)):
        for name, function in functions.items():
            names.move("backend", name, row, lambda _, function=function: function)  # type: ignore[misc]


def serve_others(keras: ModuleType) -> None:
    """Serve the classes and functions that have another name, or whose work Keras 3 does by itself."""
    names.move("callbacks", "BaseLogger", _ROW, lambda _: _base_logger(keras))
    names.move("layers", "AbstractRNNCell", _ROW, lambda _: _abstract_rnn_cell(keras))
    names.move("models", "model_from_config", _ROW, lambda _: _model_from_config)
    names.move("", "saving", None, lambda asked: import_module(f"{asked.__name__}.saving"))
    names.move("utils", "to_ordinal", _ROW, lambda _: to_ordinal)
    names.move("initializers", "normal", _ROW, lambda _: keras.initializers.RandomNormal)
    names.move("initializers", "uniform", _ROW, lambda _: keras.initializers.RandomUniform)
    # TensorFlow 1's, of `tf.compat.v1.keras`: today's behaviour either way.
    names.move("layers", "enable_v2_dtype_behavior", _ROW, lambda _: lambda: None)
    names.move("layers", "disable_v2_dtype_behavior", _ROW, lambda _: _refuse_v1_dtypes)


def patch_variables(keras: ModuleType) -> None:
    """Give Keras's variables `ref()`, by which sets and dicts hold them."""
    add_missing(keras.Variable, "ref", _ref)


def _ref(self: Any) -> Any:
    say("variable.ref")
    return self.value.ref()


def _refuse_v1_dtypes() -> None:
    raise InvalidInput(
        "Layers of Keras 3 have a dtype policy.",
        "disable_v2_dtype_behavior()",
        "Leave it out; pass dtype= to the layers that need another.",
    )


def _model_from_config(config: dict[str, Any], custom_objects: Any = None) -> Any:
    return import_module("keras.src.legacy.saving.saving_utils").model_from_config(config, custom_objects)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `x` where the layer that calls this trains, else `alt`; each may be a function of no argument.

    Args:
        x: a tensor, or a function that makes it.
        alt: of the same shape.
        training: a bool or an int; by default what the call of the layer around this was given.
    """
    if training is None:
        training = _training_of_call()
    if training is None:
        training = learning_phase()
    chosen = x if training else alt
    return chosen() if callable(chosen) else chosen


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `x` where the layer that calls this does not train, else `alt`."""
    return in_train_phase(alt, x, training)


def _training_of_call() -> Any:
    """Return what the outermost call of a layer was given as `training`; None outside of calls.

    Source: keras 3.15, src/layers/layer.py, Layer._get_call_context.
    """
    state = import_module("keras.src.backend.common.global_state")
    context = state.get_global_attribute("current_call_ctx")
    return None if context is None else context.training


def learning_phase_scope(value: int) -> AbstractContextManager[None]:
    """Refuse: no switch says whether layers train.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "In Keras 3 no switch says whether layers train.",
        f"learning_phase_scope({value!r})",
        f"Call the model with training={bool(value)}.",
    )


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: float = 1e-3
) -> tuple[Any, Any, Any]:
    """Return a batch with mean 0 and variance 1 over some axes, scaled and shifted; its mean; its variance."""
    import tensorflow as tf

    axes = list(reduction_axes)
    mean, variance = tf.nn.moments(x, axes)
    broadcast = [1 if axis in axes else size for axis, size in enumerate(x.shape)]

    def wide(tensor: Any) -> Any:
        return None if tensor is None else tf.reshape(tensor, broadcast)

    normal = tf.nn.batch_normalization(x, wide(mean), wide(variance), wide(beta), wide(gamma), epsilon)
    return normal, mean, variance


def placeholder(
    shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False, name: Any = None, **_: Any
) -> Any:
    """Return a symbolic tensor, as `K.function` takes it; its first dimension is the batch's."""
    if shape is None:
        if not ndim:
            raise InvalidInput("A placeholder has a shape.", "shape=None and ndim=None", "Pass one of the two.")
        shape = (None,) * ndim
    return import_module("keras").Input(batch_shape=tuple(shape), dtype=dtype, sparse=sparse, name=name)


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Any:
    """Print a tensor when it is computed, and return it."""
    import tensorflow as tf

    with tf.control_dependencies([tf.print(message, x, summarize=summarize)]):
        return tf.identity(x)


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Return ones with probability `p`, else zeros."""
    import tensorflow as tf

    dtype = dtype or import_module("keras").config.floatx()
    return tf.cast(tf.random.uniform(shape, dtype=tf.float32, seed=seed) <= p, dtype)


def to_ordinal(y: Any, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """Return class numbers as rows of ones up to each, e.g. 2 of 4 classes as [1, 1, 0].

    Args:
        y: whole numbers from 0, of any shape.
        num_classes: their number; by default one more than the largest.
        dtype: of the result.

    Returns:
        an array of the shape of `y`, with num_classes - 1 at its end.
    """
    y = np.array(y, dtype="int")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    count = int(y.max()) + 1 if num_classes is None else num_classes
    return (np.arange(count - 1) < y.reshape(*shape, 1)).astype(dtype)


def _to_tensor(x: Any, dtype: Any) -> Any:
    import tensorflow as tf

    return tf.convert_to_tensor(x, dtype=dtype)


def _get_available_gpus() -> list[str]:
    import tensorflow as tf

    return [device.name for device in tf.config.list_logical_devices("GPU")]


def _base_logger(keras: ModuleType) -> type:
    class BaseLogger(keras.callbacks.Callback):  # type: ignore[name-defined,misc]
        """Does nothing: Keras 3 averages the metrics of an epoch itself."""

        def __init__(self, stateful_metrics: Any = None) -> None:
            super().__init__()
            self.stateful_metrics = set(stateful_metrics or [])

    return BaseLogger


def _abstract_rnn_cell(keras: ModuleType) -> type:
    class AbstractRNNCell(keras.layers.Layer):  # type: ignore[name-defined,misc]
        """A cell for keras.layers.RNN: its subclass has state_size, output_size and call(inputs, states)."""

        def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
            """Return zeros of the state's sizes."""
            count = batch_size if batch_size is not None else keras.ops.shape(inputs)[0]
            sizes = self.state_size if isinstance(self.state_size, (list, tuple)) else [self.state_size]
            return [keras.ops.zeros((count, *_dimensions(size)), dtype=dtype or self.compute_dtype) for size in sizes]

    return AbstractRNNCell


def _dimensions(size: Any) -> Iterator[int]:
    return iter(size if isinstance(size, (list, tuple)) else (size,))
