"""Saves models as .h5 files as Keras does, and loads them so that they can be trained further."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_ddl.legacy.notices import say

if TYPE_CHECKING:
    from collections.abc import Callable


def write_model(model: Any, path: str, overwrite: bool, options: dict[str, Any]) -> None:
    """Write a model as .h5, and leave it as it was.

    Keras removes the optimizer from the model's own compile configuration, so that a .keras file saved later would be
    of a model with RMSprop.
    Source: keras 3.15, keras/src/legacy/saving/saving_utils.py, model_metadata (`training_config.pop`).
    """
    compiled = getattr(model, "_compile_config", None)
    config = dict(compiled.config) if compiled is not None else {}
    write = import_module("keras.src.legacy.saving.legacy_h5_format").save_model_to_hdf5
    try:
        write(model, path, overwrite, **options)
    finally:
        if compiled is not None:
            compiled.config = config


def load_model(stock: Callable[..., Any], filepath: Any, *args: Any, **kwargs: Any) -> Any:
    """Load a model and compile it, with its optimizer's state, so that it can be trained on.

    Keras itself would build the optimizer for the variables that belong to the model and to no layer of it: for none.
    Source: keras 3.15, keras/src/legacy/saving/legacy_h5_format.py, load_model_from_hdf5 (`_trainable_variables`).
    """
    call = inspect.signature(stock).bind(filepath, *args, **kwargs)
    call.apply_defaults()
    compiled, call.arguments["compile"] = call.arguments["compile"], False
    custom = call.arguments["custom_objects"] or {}
    call.arguments["custom_objects"] = {**_operations(), **custom}
    model = stock(*call.args, **call.kwargs)
    if compiled:
        # Some operations have the names of losses.
        h5py = import_module("h5py")
        if isinstance(filepath, h5py.File):
            _compile_as_saved(model, filepath, custom)
        else:
            with h5py.File(filepath, "r") as file:
                _compile_as_saved(model, file, custom)
    return model


def _operations() -> dict[str, Any]:
    """Return Keras's operations by name: what stands between layers, such as `x[:, 0]` or `2 * x`.

    Keras 3 writes them to .h5 files and looks for layers of these names when it reads them.
    Source: keras 3.15, src/legacy/saving/saving_utils.py, model_from_config (`MODULE_OBJECTS`: layers alone).
    """
    keras = import_module("keras")
    found: dict[str, Any] = {}
    pending = [keras.Operation]
    while pending:
        for cls in pending.pop().__subclasses__():
            if cls.__module__.startswith("keras.src.ops."):
                layer = getattr(keras.layers, cls.__name__, None)
                found[cls.__name__] = cls if layer is None else _by_config(cls, layer)
                pending.append(cls)
    return found


def _by_config(operation: type, layer: type) -> type:
    """Return what makes, of a name that both have, the layer where the file tells a layer's settings."""

    class Named:
        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Any:
            return (layer if "trainable" in config else operation).from_config(config)  # type: ignore[attr-defined]

    return Named


def _compile_as_saved(model: Any, file: Any, custom_objects: Any) -> None:
    """Compile a model with what its file says, and give its optimizer the state that the file has."""
    text = file.attrs.get("training_config")
    if text is None:
        return  # it was not compiled when it was saved
    config = _todays(import_module("keras.src.legacy.saving.json_utils").decode(text))
    # Keras 3.15 finds no function "mse" in a file, and knows it in `compile`.
    named = {key: config.pop(key) for key in ("loss", "metrics", "weighted_metrics") if _is_named(config.get(key))}
    arguments = import_module("keras.src.legacy.saving.saving_utils").compile_args_from_training_config(
        config, custom_objects
    )
    model.compile(**{**arguments, **{key: _own(value, custom_objects) for key, value in named.items()}})
    optimizer = model.optimizer
    if "optimizer_weights" not in file or not model.built:
        return
    optimizer.build(model.trainable_variables)
    values = import_module("keras.src.legacy.saving.legacy_h5_format").load_optimizer_weights_from_hdf5_group(file)
    variables = list(optimizer.variables)
    if [value.shape for value in values] == [tuple(variable.shape) for variable in variables]:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value[()])
    elif len(values) > 1:
        say("optimizer state of Keras 2")


def _is_named(config: Any) -> bool:
    """Return whether all that a file tells of losses or metrics is their names."""
    if isinstance(config, dict):
        return "class_name" not in config and all(map(_is_named, config.values()))
    return (
        all(map(_is_named, config)) if isinstance(config, (list, tuple)) else config is None or isinstance(config, str)
    )


def _own(config: Any, custom_objects: Any) -> Any:
    """Return names with the user's own functions in place of theirs."""
    if isinstance(config, dict):
        return {key: _own(value, custom_objects) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_own(value, custom_objects) for value in config]
    return import_module("keras").saving.get_registered_object(config, custom_objects) or config


def _todays(config: dict[str, Any]) -> dict[str, Any]:
    """Return what a file tells of how its model was compiled, where Keras 2 wrote it in Keras 3's words.

    Keras 2.11 to 2.15 wrote their own optimizers as the user's, which Keras 3 then makes with default arguments.
    """
    keras = import_module("keras")
    optimizer = dict(config["optimizer_config"])
    plain = optimizer["class_name"].removeprefix("Custom>")
    if hasattr(keras.optimizers, plain) and not keras.saving.get_registered_object(optimizer["class_name"]):
        optimizer["class_name"] = plain
    metrics = {key: _todays_metrics(config.get(key)) for key in ("metrics", "weighted_metrics")}
    return {**config, **metrics, "optimizer_config": optimizer}


def _todays_metrics(config: Any) -> Any:
    """Return metrics by name where Keras 2 wrote the function that a name stood for; of one output without its list."""
    if isinstance(config, dict) and config.get("class_name") == "MeanMetricWrapper":
        name, function = config["config"].get("name"), config["config"].get("fn")
        return name if name in ("accuracy", "acc") or not isinstance(function, str) else function
    if isinstance(config, dict) and "class_name" not in config:
        return {key: _todays_metrics(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        inner = config[0] if len(config) == 1 and isinstance(config[0], (list, tuple)) else config
        return [_todays_metrics(value) for value in inner]
    return config
