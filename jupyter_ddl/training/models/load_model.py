"""Loads a saved model for further training: its optimizer is distributed, and has its state.

Runs on: every rank.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.models.keras2_files import moments, ran_as_keras_2_11, todays_training_config
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedOptimizer
from jupyter_ddl.training.optimizer.distribution import is_distributed
from jupyter_ddl.training.requirements import require_horovod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = hvd.Compression.none,
    legacy_opts: bool = False,  # noqa: ARG001 (Horovod's; Keras 3 has one kind of optimizers)
    safe_mode: bool = True,
) -> Any:
    """Return a saved model, compiled as it was with its optimizer distributed, its state included.

    A model that was not compiled when it was saved is returned so.

    Args:
        filepath: a .keras or .h5 file on this rank, of any Keras 3, or an .h5 file of Keras 2; or an h5py.File.
        custom_optimizers: the user's own optimizer classes that may be in the file.
        custom_objects: the user's own classes and functions that may be in it, by their names.
        compression: as `DistributedOptimizer` takes it.
        legacy_opts: Horovod's; without effect.
        safe_mode: Keras's: false to run Python lambdas that are in the file.

    Raises:
        InvalidInput: Horovod is not initialised, or there is no such file on this rank.

    Example:
        >>> model.save("model.keras")
        >>> again = hvd.load_model("model.keras")
        >>> history = again.fit(x, y, verbose=0)
    """
    require_horovod("hvd.load_model")
    path = _path(filepath)
    objects = {cls.__name__: cls for cls in custom_optimizers or ()} | (custom_objects or {})
    if path.is_file() and h5py.is_hdf5(path):
        model = _load_hdf5(path, objects, safe_mode=safe_mode)
    else:
        model = keras.models.load_model(path, custom_objects=objects, safe_mode=safe_mode)
    optimizer = getattr(model, "optimizer", None)
    if model.compiled and optimizer is not None and not is_distributed(optimizer):
        DistributedOptimizer(optimizer, compression=compression)
    return model


def _path(filepath: Any) -> Path:
    path = Path(filepath.filename if isinstance(filepath, h5py.File) else os.fspath(filepath))
    if not path.exists():
        raise InvalidInput(
            "hvd.load_model opens a file that this rank can read.",
            f"{path}, which is not there on rank {hvd.rank()}",
            "Save it where all ranks see it, or load it on one rank and broadcast its weights.",
        )
    return path


def _load_hdf5(path: Path, objects: dict[str, Any], *, safe_mode: bool) -> Any:
    with h5py.File(path, "r") as file:
        training = json.loads(file.attrs["training_config"]) if "training_config" in file.attrs else None
        is_of_keras_2 = str(_text(file.attrs.get("keras_version", "2"))).startswith("2.")
    today = None
    if training is not None and is_of_keras_2:
        # Where the old spellings are installed; callbacks can then still set the learning rate.
        keeps_decay = hasattr(keras.optimizers.Optimizer, "decay")
        today = todays_training_config(training, custom=objects, keeps_decay=keeps_decay)
    with _readable_by_keras(path, today) as readable:
        model = keras.models.load_model(readable, custom_objects=objects, safe_mode=safe_mode)
    if model.compiled and model.optimizer is not None and model.built:
        _renew_optimizer(model, objects)
        with h5py.File(path, "r") as file:
            if not _restore(model, file, training if is_of_keras_2 else None):
                warnings.warn(
                    f"The optimizer's state in {path.name} does not fit {type(model.optimizer).__name__} of Keras 3: "
                    "its moments start at zero.",
                    stacklevel=3,
                )
    return model


@contextmanager
def _readable_by_keras(path: Path, training: dict[str, Any] | None) -> Iterator[Path]:
    """Give the file a name that Keras recognises as HDF5, and a file of Keras 2 today's training configuration."""
    if training is None and path.suffix in (".h5", ".hdf5"):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="jupyter_ddl-") as folder:
        readable = Path(folder) / "model.h5"
        if training is None:
            readable.symlink_to(path.resolve())
        else:
            shutil.copyfile(path, readable)
            with h5py.File(readable, "r+") as file:
                file.attrs["training_config"] = json.dumps(training)
                if "optimizer_weights" in file:
                    del file["optimizer_weights"]  # Keras would take them in another order
        yield readable


def _renew_optimizer(model: Any, objects: dict[str, Any]) -> None:
    """Give the model a new optimizer of the same configuration, built for the variables that it trains.

    Keras makes that of an .h5 file for variables that belong to no layer, so the first step would fail.
    Source: keras 3.15, src/legacy/saving/legacy_h5_format.py, load_model_from_hdf5 (`model._trainable_variables`)
    """
    with keras.saving.custom_object_scope(objects):
        optimizer = type(model.optimizer).from_config(model.optimizer.get_config())
    optimizer.build(model.trainable_variables)
    model.optimizer = optimizer


def _restore(model: Any, file: Any, keras_2: dict[str, Any] | None) -> bool:
    """Give the optimizer the state that is in the file; return whether it fits.

    Args:
        model: its optimizer has no state yet.
        file: the model's, open.
        keras_2: the training configuration of a file of Keras 2.
    """
    if "optimizer_weights" not in file:
        return True
    group = file["optimizer_weights"]
    names = [str(_text(name)) for name in _attribute(group, "weight_names")]
    arrays = [group[name][()] for name in names]
    optimizer = model.optimizer
    if keras_2 is None:
        return _assign(list(optimizer.variables), arrays)
    if arrays and arrays[0].shape == ():
        optimizer.iterations.assign(int(arrays[0]))
        names, arrays = names[1:], arrays[1:]
    own = _moments_of(optimizer)
    shapes = [tuple(variable.shape) for variable in model.trainable_variables]
    if not shapes or own is None:
        return not own
    saved = moments(names, arrays, shapes, kind_comes_first=ran_as_keras_2_11(keras_2))
    # Keras before tf.keras kept SGD's momentum where it was 0 too.
    if saved is None or len(saved) < len(own):
        return False
    pairs = zip(own, saved[: len(own)], strict=True)
    return all(_assign(variables, values) for variables, values in pairs)


def _assign(variables: list[Any], values: list[Any]) -> bool:
    if [tuple(variable.shape) for variable in variables] != [value.shape for value in values]:
        return False
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return True


def _moments_of(optimizer: Any) -> list[list[Any]] | None:
    """Return the optimizer's moments, one list a kind, as `moments` does; None if it keeps others besides.

    Keras 3 names them "path_of_the_variable_kind".
    """
    trained = optimizer._trainable_variables
    prefixes = [f"{variable.path.replace('/', '_')}_" for variable in trained]
    kinds: dict[str, list[Any]] = {}
    for variable in optimizer.variables:
        if variable is optimizer.iterations or variable is optimizer.learning_rate:
            continue
        fitting = [prefix for prefix in prefixes if variable.name.startswith(prefix)]
        if not fitting:
            return None
        kinds.setdefault(variable.name.removeprefix(max(fitting, key=len)), []).append(variable)
    groups = list(kinds.values())
    return groups if all(len(group) == len(trained) for group in groups) else None


def _attribute(group: Any, name: str) -> list[Any]:
    """Return a list that HDF5 may have cut in pieces, "name0", "name1", ..., for its length."""
    if name in group.attrs:
        return list(group.attrs[name])
    pieces: list[Any] = []
    while f"{name}{len(pieces)}" in group.attrs:
        pieces.append(group.attrs[f"{name}{len(pieces)}"])
    return [part for piece in pieces for part in piece]


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
