"""All models of the scaling benchmark by name, and a user's from a file.

Runs on: every process that trains; a terminal.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.scaling_program.models import cnn, cosmogan, hep_cnn, resnet50, transformer
from jupyter_ddl.scaling_program.models.definition import BenchmarkModel, Part, one_part

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

MODELS = {module.MODEL.name: module.MODEL for module in (cnn, hep_cnn, cosmogan, resnet50, transformer)}
_FILE = (
    "Define BATCH_SIZE, model(keras), which returns a compiled model, and data(random, samples), which returns x, y."
)


def find(name: str) -> BenchmarkModel:
    """Return a model by its name, or from a Python file.

    Raises:
        InvalidInput: there is no such model or file, or the file lacks a definition.

    Example:
        A file is, with a Keras that is 3 or 2::

            BATCH_SIZE = 64

            def model(keras):
                made = keras.Sequential([keras.layers.InputLayer((8,)), keras.layers.Dense(1)])
                made.compile(keras.optimizers.SGD(0.01), keras.losses.MeanSquaredError())
                return made

            def data(random, samples):
                x = random.normal(size=(samples, 8)).astype("float32")
                return x, x.sum(1, keepdims=True)
    """
    if name in MODELS:
        model: BenchmarkModel = MODELS[name]
        return model
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput(
            "A model is one of the benchmark's, or a Python file.", name, f"Pass {', '.join(MODELS)} or FILE.py."
        )
    return _from_file(path)


def _from_file(path: Path) -> BenchmarkModel:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = [name for name in ("BATCH_SIZE", "model", "data") if not hasattr(module, name)]
    if missing:
        raise InvalidInput("A model's file defines what is trained.", f"{path} without {', '.join(missing)}", _FILE)
    return _defined(module, path)


def _defined(module: ModuleType, path: Path) -> BenchmarkModel:
    def parts(keras: Any, _size: int) -> list[Part]:
        model = module.model(keras)
        return one_part(model, model.optimizer, keras.losses.get(model.loss))

    def data(random: np.random.Generator, samples: int, _size: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = module.data(random, samples)
        return x, y

    return BenchmarkModel(path.stem, path.name, int(module.BATCH_SIZE), 0, parts, data)
