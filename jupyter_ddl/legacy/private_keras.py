"""Gives programs Keras 3 where they import `tensorflow.python.keras`, as IBM's slides for DDL do.

TensorFlow still holds a Keras of 2021 there, for its own layers of TensorFlow 1. A program would train with it where no
rank exchanges anything. TensorFlow has bound what it needs of it when it has been imported.

Source: tensorflow 2.21.0, tensorflow/python/keras.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.host import import_hooks
from jupyter_ddl.legacy.names import TF_TREE
from jupyter_ddl.legacy.notices import say

if TYPE_CHECKING:
    from types import ModuleType

ROOT = "tensorflow.python.keras"
_ROW = "tensorflow.python.keras"
# What programs import of it. What lies deeper is found in these, but for TensorFlow's own modules.
_PUBLIC = (
    *("activations", "applications", "backend", "callbacks", "constraints", "datasets", "initializers", "layers"),
    *("losses", "metrics", "models", "optimizers", "preprocessing", "regularizers", "utils"),
)


def serve(_tensorflow: ModuleType) -> None:
    """Have imports of it give `tf.keras`, from now on."""
    for name, target in ((ROOT, TF_TREE), *((f"{ROOT}.{part}", f"{TF_TREE}.{part}") for part in _PUBLIC)):
        import_hooks.forget(name)
        import_hooks.replace(name, target, then=partial(say, _ROW))
