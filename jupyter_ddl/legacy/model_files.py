"""Saves models and weights under old file names and in old formats."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.legacy import hdf5, names
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import wrap, wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_HDF5 = (".h5", ".hdf5")
_WEIGHTS = (".weights.h5", ".weights.json")


def patch_saving(_keras: ModuleType) -> None:
    """Have models be saved under the names and with the arguments that programs use."""
    saving = import_module("keras.src.saving.saving_api")
    _replace(saving, "save_model", _save_model)
    _replace(saving, "load_model", _load_model)
    _replace(import_module("keras.src.legacy.saving.legacy_h5_format"), "load_model_from_hdf5", hdf5.load_model)


def patch_weights(keras: ModuleType) -> None:
    """Have weights be saved under the names and with the arguments that programs use."""
    saving = import_module("keras.src.saving.saving_api")
    _replace(saving, "save_weights", _save_weights)
    _replace(saving, "load_weights", _load_weights)
    wrap_method(keras.Model, "save_weights", _model_save_weights, ("save_format", "options"))


def _replace(module: ModuleType, name: str, ours: Callable[..., Any]) -> None:
    stock = getattr(module, name)
    names.replace(stock, wrap(module, name, ours))


# --- models --------------------------------------------------------------------------------------------------------


def _save_model(
    stock: Callable[..., Any], model: Any, filepath: Any, overwrite: bool = True, zipped: Any = None, **kwargs: Any
) -> Any:
    path = str(filepath)
    for name in ("signatures", "options", "save_traces"):
        if kwargs.pop(name, None) is not None:
            say("model.save(save_format=...)")
    if kwargs.pop("save_format", None):
        say("model.save(save_format=...)")
    if path.endswith(_HDF5):
        # Not through Keras's function, which would warn at each file.
        say(".h5 files")
        return hdf5.write_model(model, path, overwrite, kwargs)
    if zipped is None and not path.endswith(".keras") and not path.startswith("hf://"):
        say("model file name")
        path = f"{path.rstrip('/')}.keras"
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    else:
        return stock(model, filepath, overwrite, zipped, **kwargs)
    return stock(model, path, overwrite, zipped, **kwargs)


def _load_model(stock: Callable[..., Any], filepath: Any, *args: Any, **kwargs: Any) -> Any:
    path = str(filepath).rstrip("/")
    if kwargs.pop("options", None) is not None:
        say("model.save(save_format=...)")
    if not Path(path).exists() and Path(f"{path}.keras").is_file():
        say("model file name")
        filepath = f"{path}.keras"
    return stock(filepath, *args, **kwargs)


# --- weights -------------------------------------------------------------------------------------------------------


def _model_save_weights(
    stock: Callable[..., Any],
    self: Any,
    filepath: Any,
    *args: Any,
    save_format: Any = None,
    options: Any = None,
    **kwargs: Any,
) -> Any:
    if save_format is not None or options is not None:
        say("weights file name")
    if save_format in ("h5", "hdf5", "keras") and not str(filepath).endswith(_HDF5):
        return _write_hdf5(self, Path(filepath))
    return stock(self, filepath, *args, **kwargs)


def _save_weights(
    stock: Callable[..., Any],
    model: Any,
    filepath: Any,
    overwrite: bool = True,
    max_shard_size: Any = None,
    **kwargs: Any,
) -> Any:
    path = str(filepath)
    if path.endswith(_WEIGHTS) or max_shard_size is not None:
        return stock(model, filepath, overwrite, max_shard_size, **kwargs)
    say("weights file name")
    if not path.endswith((*_HDF5, ".keras")):
        return _write_checkpoint(model, path)
    if overwrite or not Path(path).exists() or _may_overwrite(path):
        return _write_hdf5(model, Path(path))
    return None


def _may_overwrite(path: str) -> bool:
    return bool(import_module("keras.src.utils.io_utils").ask_to_proceed_with_overwrite(path))


def _write_hdf5(model: Any, path: Path) -> None:
    """Write weights as Keras 2 did, which Keras 2 and 3 read from any name that ends in .h5."""
    h5py = import_module("h5py")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        import_module("keras.src.legacy.saving.legacy_h5_format").save_weights_to_hdf5_group(file, model)


def _write_checkpoint(model: Any, path: str) -> None:
    """Write weights as a TensorFlow checkpoint, as Keras 2 did under a name with no ending."""
    import tensorflow as tf

    if not model.built:
        raise InvalidInput(
            "A model's weights must exist before they are saved.",
            f"save_weights({path!r}) of a model that is not built",
            "Call model.build(input_shape) first, or save after fit.",
        )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    tf.train.Checkpoint(**_numbered(model)).write(path)
    # What tf.train.latest_checkpoint reads.
    name = Path(path).name
    state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    Path(path).with_name("checkpoint").write_text(state)


def _numbered(model: Any) -> dict[str, Any]:
    """Return the model's weights by their number: a checkpoint of ours does not depend on layers' automatic names."""
    return {f"weight_{i}": variable.value for i, variable in enumerate(model.weights)}


def _load_weights(
    stock: Callable[..., Any], model: Any, filepath: Any, skip_mismatch: bool = False, **kwargs: Any
) -> Any:
    path = str(filepath)
    is_checkpoint = Path(f"{path}.index").is_file()
    if not is_checkpoint:
        return stock(model, filepath, skip_mismatch, **kwargs)
    import tensorflow as tf

    say("weights file name")
    saved = dict(tf.train.list_variables(path))
    if not any(name.startswith("weight_0/") for name in saved):
        raise InvalidInput(
            "Keras 3 does not read the TensorFlow checkpoints of Keras 2.",
            f"load_weights({path!r})",
            "Load it with the Keras that wrote it, and save it as .weights.h5 or .h5.",
        )
    return tf.train.Checkpoint(**_numbered(model)).read(path).assert_existing_objects_matched()
