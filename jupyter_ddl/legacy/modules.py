"""Serves modules and names that moved within Keras, with the same meaning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import around
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.notices import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# The module that is gone: the one that has its names.
_LAYERS = (
    "advanced_activations",
    "convolutional",
    "convolutional_recurrent",
    "core",
    "cudnn_recurrent",
    "embeddings",
    "local",
    "merge",
    "noise",
    "normalization",
    "pooling",
    "recurrent",
    "wrappers",
    "preprocessing",
    "normalization.batch_normalization",
    "normalization.layer_normalization",
    "experimental",
    "experimental.preprocessing",
)
_ENGINE = (
    "",
    ".topology",
    ".base_layer",
    ".input_layer",
    ".input_spec",
    ".training",
    ".sequential",
    ".functional",
    ".network",
)
_UTILS = ("np_utils", "generic_utils", "data_utils", "vis_utils", "layer_utils", "io_utils", "image_utils", "all_utils")
_TF_ONLY = ("image", "sequence", "text")


def serve_layers(_keras: ModuleType) -> None:
    """Serve `keras.layers.normalization`, `keras.engine.topology` and their like."""
    for name in _LAYERS:
        names.retire(f"layers.{name}", "layers", "keras.layers.core")
    for name in _ENGINE:
        names.retire(f"engine{name}", "layers", "keras.engine")
        # What is not a layer.
        for thing in ("Model", "Sequential"):
            names.move(f"engine{name}", thing, None, lambda _, thing=thing: getattr(import_module("keras"), thing))  # type: ignore[misc]
        names.move(f"engine{name}", "Network", None, lambda _: import_module("keras").Model)
        names.move(f"engine{name}", "get_source_inputs", None, lambda _: import_module("keras").utils.get_source_inputs)


def serve_utils(_keras: ModuleType) -> None:
    """Serve `keras.utils.np_utils` and its like."""
    for name in _UTILS:
        names.retire(f"utils.{name}", "utils", "keras.utils.np_utils")


def serve_others(_keras: ModuleType) -> None:
    """Serve other modules whose names are elsewhere now."""
    names.retire("callbacks.callbacks", "callbacks", "other modules")
    names.retire("callbacks.tensorboard_v1", "callbacks", "other modules")
    names.retire("callbacks.experimental", "callbacks", "other modules")
    names.retire("models.model", "models", "other modules")
    names.retire("experimental", "optimizers.schedules", "other modules")
    names.retire("objectives", "losses", "other modules")
    names.retire("initializations", "initializers", "other modules")
    names.retire("optimizers.optimizer_v2", "optimizers", "other modules")
    names.retire("applications.resnet_v1", "applications.resnet", "other modules")


def serve_preprocessing(keras: ModuleType) -> None:
    """Have `keras.preprocessing` answer for what only `tf.keras.preprocessing` still has."""
    for name in _TF_ONLY:
        today = f"{names.TF_TREE}.preprocessing.{name}"
        tree = import_module(today)
        here = getattr(keras.preprocessing, name, None)
        if here is None:
            names.retire(f"preprocessing.{name}", today, "keras.preprocessing")
            continue
        for thing in vars(tree):
            if not thing.startswith("_") and not hasattr(here, thing):
                _forward(f"preprocessing.{name}", thing, tree, "keras.preprocessing")
    for module, row in (
        ("layers", "layers of tf.keras"),
        ("losses", "layers of tf.keras"),
        ("metrics", "layers of tf.keras"),
    ):
        tree = import_module(f"{names.TF_TREE}.{module}")
        for thing in vars(tree):
            if not thing.startswith("_") and not hasattr(getattr(keras, module), thing):
                _forward(module, thing, tree, row)


def _forward(module: str, name: str, tree: ModuleType, row: str) -> None:
    names.move(module, name, row, lambda _: getattr(tree, name))


def patch_to_categorical(keras: ModuleType) -> None:
    """Have `to_categorical` take `dtype`, `y` and `nb_classes`."""
    stock = keras.utils.to_categorical
    names.replace(stock, around(stock, _to_categorical, ("dtype", "nb_classes", "y")))


def _to_categorical(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    dtype = kwargs.pop("dtype", None)
    if len(args) > 2:
        *args, dtype = args  # type: ignore[assignment]
    if "nb_classes" in kwargs:
        say("to_categorical(dtype=...)")
        kwargs["num_classes"] = kwargs.pop("nb_classes")
    if "y" in kwargs:
        args = (kwargs.pop("y"), *args)
    classes = stock(*args, **kwargs)
    if dtype is None:
        return classes
    say("to_categorical(dtype=...)")
    return classes.astype(dtype) if hasattr(classes, "astype") else import_module("keras").ops.cast(classes, dtype)


def serve_mixed_precision(keras: ModuleType) -> None:
    """Serve `tf.keras.mixed_precision.experimental`."""
    names.retire("mixed_precision.experimental", "mixed_precision", "mixed_precision.experimental")
    own = {
        "set_policy": lambda _: keras.mixed_precision.set_global_policy,
        "global_policy": lambda _: keras.mixed_precision.global_policy,
        "Policy": lambda _: _policy,
        "LossScaleOptimizer": lambda _: _loss_scale_optimizer,
    }
    for name, read in own.items():
        names.move("mixed_precision.experimental", name, None, read)


def _policy(name: str, loss_scale: Any = "auto") -> Any:
    _require_dynamic(loss_scale)
    return import_module("keras").mixed_precision.Policy(name)


def _loss_scale_optimizer(optimizer: Any, loss_scale: Any = "dynamic") -> Any:
    """Return an optimizer that scales the loss as TensorFlow 2.3's did by default: dynamically, from 2 ** 15."""
    _require_dynamic(loss_scale)
    return import_module("keras").mixed_precision.LossScaleOptimizer(optimizer)


def _require_dynamic(loss_scale: Any) -> None:
    if loss_scale not in ("auto", "dynamic"):
        raise InvalidInput(
            "Keras 3 scales the loss of mixed_float16 dynamically.",
            f"loss_scale={loss_scale!r}",
            "Pass 'dynamic'; or leave mixed_float16, and pass loss_scale_factor to the optimizer.",
        )
