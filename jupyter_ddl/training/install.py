"""Makes a rank ready for programs that were written for Horovod, without importing anything heavy.

What is installed acts when the program imports Keras or Horovod. Runs on: every rank; a rank's start-up calls it, and
`import jupyter_ddl.keras` does.
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import TYPE_CHECKING

from jupyter_ddl import import_hooks, legacy

if TYPE_CHECKING:
    from types import ModuleType

_REPLACEMENTS = {
    "horovod.tensorflow.keras": "jupyter_ddl.keras",
    "horovod.tensorflow.keras.callbacks": "jupyter_ddl.training.callbacks",
    "horovod.tensorflow.keras.elastic": "jupyter_ddl.training.elastic",
    "horovod.keras": "jupyter_ddl.keras",
    "horovod.keras.callbacks": "jupyter_ddl.training.callbacks",
    "horovod.keras.elastic": "jupyter_ddl.training.elastic",
}
_installed = False


def install() -> None:
    """Install what a rank needs, once; nothing where the program uses Keras 2, which stock Horovod serves."""
    global _installed
    if _installed or not uses_keras_3():
        return
    _installed = True
    for name, target in _REPLACEMENTS.items():
        import_hooks.replace(name, target)
    import_hooks.when_imported("horovod.tensorflow", _serve_keras_variables)
    import_hooks.when_imported("keras", _hook_keras)
    # Last, so that it wraps `fit` outermost: old arguments are translated before ours looks at them.
    legacy.install()


def uses_keras_3() -> bool:
    """Return whether `tf.keras` and `keras` are Keras 3 or newer, without importing them."""
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return False
    try:
        version = metadata.version("keras")
    except metadata.PackageNotFoundError:
        return False
    return int(version.partition(".")[0]) >= 3


def _hook_keras(_keras: ModuleType) -> None:
    from jupyter_ddl.training import fit, local_datasets

    fit.install()
    local_datasets.install()


def _serve_keras_variables(horovod: ModuleType) -> None:
    """Give `horovod.tensorflow`, for loops of the user's own, what works on Keras 3's variables."""

    def distributed_tape(*args: object, **kwargs: object) -> object:
        from jupyter_ddl.training import tape

        return tape.DistributedGradientTape(*args, **kwargs)  # type: ignore[arg-type]

    def partial_tape(*args: object, **kwargs: object) -> object:
        from jupyter_ddl.training import tape

        return tape.PartialDistributedGradientTape(*args, **kwargs)

    stock_broadcast = horovod.broadcast_variables

    def broadcast_variables(*args: object, **kwargs: object) -> object:
        import tensorflow as tf

        if not tf.executing_eagerly() and not tf.compat.v1.get_default_graph().building_function:
            # A graph of TensorFlow 1: the operation is returned, for a session to run.
            return stock_broadcast(*args, **kwargs)
        from jupyter_ddl.training import collectives

        return collectives.broadcast_variables(*args, **kwargs)  # type: ignore[arg-type,func-returns-value]

    for name, ours in {
        "DistributedGradientTape": distributed_tape,
        "PartialDistributedGradientTape": partial_tape,
        "broadcast_variables": broadcast_variables,
    }.items():
        setattr(horovod, name, ours)
