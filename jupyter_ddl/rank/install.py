"""Makes a rank ready for programs that were written for Horovod, without importing anything heavy.

What is installed acts when the program imports Keras or Horovod. Runs on: every rank; a rank's start-up calls it, and
`import jupyter_ddl.keras` does.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import auto_distribution, checkpoints, jax_training, legacy
from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.collectives.horovod_operations import keep_from_folding
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, instead, patch
from jupyter_ddl.ibm_ddl import serving as ibm_ddl
from jupyter_ddl.memory import installation as modules_in_less_memory
from jupyter_ddl.memory import unused
from jupyter_ddl.protocol import settled_variables
from jupyter_ddl.training import interrupted_tracing, keras_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from jupyter_ddl.engine.rank_state import RankState

_REPLACEMENTS = {
    "horovod.tensorflow.keras": "jupyter_ddl.keras",
    "horovod.tensorflow.keras.callbacks": "jupyter_ddl.training.callbacks",
    "horovod.tensorflow.keras.elastic": "jupyter_ddl.training.elastic",
    "horovod.keras": "jupyter_ddl.keras",
    "horovod.keras.callbacks": "jupyter_ddl.training.callbacks",
    "horovod.keras.elastic": "jupyter_ddl.training.elastic",
}
_TENSORFLOW = "tensorflow"
FUSION_BYTES = 8 * 2**20


class _Installed:
    """What is installed on this rank."""

    def __init__(self) -> None:
        self.for_any_keras = False
        self.for_keras_3 = False


def install() -> RankState:
    """Make this process a rank, and install what a rank needs, once; return the rank's state.

    For Keras 2, which stock Horovod serves, only the refusal to distribute it is installed.
    """
    state = rank_state.begin()
    installed = state.part(_Installed)
    if not installed.for_any_keras:
        installed.for_any_keras = True
        _prepare_cells(state)
        import_hooks.when_imported("tensorflow", _hook_iterators)
        import_hooks.when_imported("tensorflow", interrupted_tracing.install)
        import_hooks.when_imported("horovod.tensorflow.mpi_ops", keep_from_folding)
        import_hooks.replace("horovod", "jupyter_ddl.horovod_api.horovod", when=_stands_in_for_horovod)
        import_hooks.replace(
            "horovod.torch", "jupyter_ddl.horovod_api.horovod_torch", when=_is_without_torch_in_horovod
        )
        ibm_ddl.install()
    if not installed.for_keras_3 and keras_version.uses_keras_3():
        installed.for_keras_3 = True
        _install_for_keras_3()
    return state


def _install_for_keras_3() -> None:
    for name, target in _REPLACEMENTS.items():
        # A script may still ask for Keras 2 in its first lines.
        import_hooks.replace(name, target, when=keras_version.uses_keras_3)
    import_hooks.when_imported("horovod.tensorflow", _serve_keras_variables)
    import_hooks.when_imported("horovod.tensorflow", _tune_for_cores)
    import_hooks.when_imported("horovod.tensorflow", _lead_oneccl_to_its_network)
    import_hooks.when_imported("tensorflow", _hook_datasets)
    import_hooks.when_imported("keras", _hook_keras)
    # Last, so that it wraps `fit` outermost: old arguments are translated before our `fit` reads them.
    legacy.install()


def _prepare_cells(state: RankState) -> None:
    """Prepare each cell that is to be distributed, or saved, or refuse it."""
    state.cells.prepare_with(auto_distribution.prepare)
    state.cells.prepare_with(jax_training.prepare)
    # After them: the seed of a resumed training replaces the one drawn there.
    state.cells.prepare_with(checkpoints.prepare)
    state.cells.prepare_with(unused.prepare)
    modules_in_less_memory.install(state)
    state.cells.conclude_with(unused.conclude)
    # This thread survives an interrupt during tracing.
    state.cells.prepare_with(interrupted_tracing.leave_graphs)


def _hook_iterators(tensorflow: ModuleType) -> None:
    """Keep a rank from waiting for the end of an iterator over a dataset, with any Keras."""
    from jupyter_ddl.pipelines import iterators

    iterators.install(tensorflow)


def _hook_datasets(_tensorflow: ModuleType) -> None:
    """Record how datasets are made: a later cell may ask for a rank's shard of one."""
    from jupyter_ddl.pipelines import lineage

    lineage.install()


def _hook_keras(keras: ModuleType) -> None:
    _check_backend(keras)
    if keras.config.backend() == _TENSORFLOW and "horovod.tensorflow" in sys.modules:
        # Horovod may be what imports Keras, and our hooks need all of it. If it is complete, they run now.
        import_hooks.when_imported("horovod.tensorflow", _hook_training)
    else:
        _hook_training(keras)


def keras_backend() -> str:
    """Return the backend of Keras, which has been imported."""
    import keras

    backend: str = keras.config.backend()
    return backend


def _stands_in_for_horovod() -> bool:
    """Return whether what this rank trains with has Horovod's names from elsewhere, and there is no Horovod."""
    if import_hooks.executed("keras") is not None:
        is_served = keras_backend() != _TENSORFLOW
    else:
        is_served = import_hooks.executed("torch") is not None and _TENSORFLOW not in sys.modules
    return is_served and not _files_of_horovod()


def _is_without_torch_in_horovod() -> bool:
    """Return whether there is PyTorch, and no Horovod that was built for it."""
    is_built = any(file.match("horovod/torch/mpi_lib*") for file in _files_of_horovod())
    return not is_built and find_spec("torch") is not None


def _files_of_horovod() -> list[metadata.PackagePath]:
    try:
        return metadata.files("horovod") or []
    except metadata.PackageNotFoundError:
        return []


def _check_backend(keras: ModuleType) -> None:
    """Refuse another backend, in a script that chooses it before its import.

    Raises:
        InvalidInput: Keras has one.
    """
    backend = keras.config.backend()
    if backend not in settled_variables.BACKENDS:
        raise settled_variables.backend_refusal(f"keras imported with the backend {backend}")


def _hook_training(_module: ModuleType) -> None:
    if keras_backend() == jax_training.JAX:
        from jupyter_ddl.jax_training import wrapped_methods as on_jax

        on_jax.install()
    if keras_backend() == _TENSORFLOW:
        try:
            import horovod.tensorflow  # noqa: F401
        except ImportError:
            # Horovod does not work here. Keras must still import; code that needs Horovod raises its own error.
            return
    from jupyter_ddl.auto_distribution import wrapped_methods
    from jupyter_ddl.checkpoints import cell_checkpoints
    from jupyter_ddl.datasets import keras_datasets
    from jupyter_ddl.ibm_ddl import wrapped_methods as of_ddl
    from jupyter_ddl.memory import wrapped_methods as in_less_memory
    from jupyter_ddl.training import fit

    fit.install(cell_checkpoints.of_this_fit)
    # Around it: the data are divided first, then `fit` trains on this rank's part.
    wrapped_methods.install()
    of_ddl.install()
    # Around both: what it changes of a model comes before its optimizer is distributed.
    in_less_memory.install()
    keras_datasets.install()


def _tune_for_cores(horovod: ModuleType) -> None:
    """Where gradients go through MPI, make Horovod fuse them into buffers that fit the processor's caches.

    Its default, 128 MB, is for NCCL; through MPI 100 MB of gradients take twice as long with it (docs/performance.md).
    Only for a Horovod with our edits: setting this and HOROVOD_CYCLE_TIME crashes others at their second
    initialisation (horovod_build/edits.py).
    """
    if not horovod.nccl_built() and _edits_of_horovod() >= 2:
        os.environ.setdefault("HOROVOD_FUSION_THRESHOLD", str(FUSION_BYTES))


def _lead_oneccl_to_its_network(horovod: ModuleType) -> None:
    """Where Horovod is built with oneCCL, have that exchange through the libfabric that lies beside it.

    Its wheel brings one, whose providers lie there too, and looks for it in the loader's folders alone. Its other way
    is Intel's MPI, which is not the MPI of the ranks.
    Source: oneCCL 2021.15.2, "CCL_ATL_TRANSPORT", "CCL_OFI_LIBRARY_PATH"; libfabric, fabric(7), "FI_PROVIDER_PATH".
    """
    if not horovod.ccl_built():
        return
    maps = Path("/proc/self/maps").read_text().splitlines()
    folders = {Path(line.split(None, 5)[5]).parent for line in maps if re.search(r"/libccl\.so[.\d]*$", line)}
    for folder in folders:
        if (fabric := folder / "libfabric.so.1").exists():
            os.environ.setdefault("CCL_ATL_TRANSPORT", "ofi")
            os.environ.setdefault("CCL_OFI_LIBRARY_PATH", str(fabric))
            os.environ.setdefault("FI_PROVIDER_PATH", str(folder))


def _edits_of_horovod() -> int:
    """Return the number of our build of the installed Horovod, from its version's local part; 0 for any other."""
    try:
        version = metadata.version("horovod")
    except metadata.PackageNotFoundError:
        return 0
    mark = re.search(r"\+ddl(\d+)", version)
    return int(mark[1]) if mark else 0


def _serve_keras_variables(horovod: ModuleType) -> None:
    """Make `horovod.tensorflow` work on Keras 3's variables, for custom loops."""
    from jupyter_ddl.training.unconverted import unconverted_around

    def distributed_tape(_stock: Callable[..., object], *args: object, **kwargs: object) -> object:
        from jupyter_ddl.training.optimizer import tape

        return tape.DistributedGradientTape(*args, **kwargs)  # type: ignore[arg-type]

    def partial_tape(_stock: Callable[..., object], *args: object, **kwargs: object) -> object:
        from jupyter_ddl.training.optimizer import tape

        return tape.PartialDistributedGradientTape(*args, **kwargs)

    def broadcast_variables(stock: Callable[..., object], *args: object, **kwargs: object) -> object:
        import tensorflow as tf

        if not tf.executing_eagerly() and not tf.compat.v1.get_default_graph().building_function:
            # A graph of TensorFlow 1: the operation is returned, for a session to run.
            return stock(*args, **kwargs)
        from jupyter_ddl.training import collectives

        return collectives.broadcast_variables(*args, **kwargs)  # type: ignore[arg-type,func-returns-value]

    def elastic_state(_stock: Callable[..., object], *args: object, **kwargs: object) -> object:
        from jupyter_ddl.training import elastic

        return elastic.KerasState(*args, **kwargs)

    def run_elastic(_stock: Callable[..., object], func: Callable[..., object]) -> object:
        from jupyter_ddl.training import elastic

        return elastic.run(func)

    replacements: dict[str, Callable[..., object]] = {
        "DistributedGradientTape": distributed_tape,
        "PartialDistributedGradientTape": partial_tape,
        "broadcast_variables": broadcast_variables,
    }
    for name, ours in replacements.items():
        patch(horovod, name, ours, Layer.FIT, unconverted_around)
    of_elastic: dict[str, Callable[..., object]] = {
        "TensorFlowKerasState": elastic_state,
        "run": run_elastic,
        "broadcast_variables": broadcast_variables,
    }
    for name, ours in of_elastic.items():
        patch(horovod.elastic, name, ours, Layer.FIT, unconverted_around)
    patch(horovod.SyncBatchNormalization, "__init__", _refuse_sync_batch_normalization, Layer.FIT)
    if not hasattr(horovod, "BroadcastGlobalVariablesHook"):
        from jupyter_ddl.legacy.horovod_sessions import BroadcastGlobalVariablesHook

        patch(horovod, "BroadcastGlobalVariablesHook", BroadcastGlobalVariablesHook, Layer.LEGACY, instead)


def _refuse_sync_batch_normalization(_stock: Callable[..., object], *_args: object, **_kwargs: object) -> None:
    raise InvalidInput(
        "hvd.SyncBatchNormalization is a layer for Keras 2.",
        "one with Keras 3, which asks a layer for its moments in another way",
        "Use keras.layers.GroupNormalization, which needs no other rank's samples; or keras.layers.BatchNormalization "
        "with 16 samples and more a rank.",
    )
