"""Runs a program of Keras or PyTorch that was written for one process on all ranks, unchanged: `--auto`.

| module | owns |
|---|---|
| `wrapped_methods` | the methods of Keras that are wrapped |
| `current_call`, `distributed_calls` | which call is being distributed, and which optimizers are |
| `fit`, `evaluation`, `prediction`, `on_batch` | what each of them does under `--auto` |
| `data_division`, `shards/` | how the data are divided |
| `same_data` | all ranks hold the same arrays |
| `learning_rate_scaling` | the learning rate of a larger batch, and its warm-up |
| `step_settings`, `noise` | how training steps are made; which random numbers the ranks share |
| `tensorflow_noise`, `torch_noise` | the random numbers of a backend itself |
| `callbacks` | which ranks run which callbacks |
| `saving` | rank 0 writes a model's file |
| `plan` | what is printed before the training begins |
| `differences` | parts of a model that give another result on several ranks |
| `torch_loops/` | training loops of PyTorch's |
| `refusals` | what is not distributed, and what to write instead |

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.protocol.cell_options import GLOBAL

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.engine.cells import Cell


def prepare(running: Cell) -> None:
    """Prepare this rank for a run that is to be distributed: now, or when it imports Keras.

    Collective: every rank must call this.

    Raises:
        InvalidInput: it is to be distributed, and would train with Keras 2.
    """
    if running.options.auto is None:
        return
    rank_state.here().part(_Torch).begin()
    from jupyter_ddl.training.keras_version import asks_for_keras_2, is_missing, uses_keras_3

    if is_missing():
        # Ranks of PyTorch alone.
        return
    if not uses_keras_3():
        raise _keras_2("TF_USE_LEGACY_KERAS, set" if asks_for_keras_2() else "an older Keras, or none")
    import_hooks.when_imported("keras", _begin)
    import_hooks.when_imported("tf_keras", _refuse)


class _Torch:
    """Whether loops of PyTorch's are distributed on this rank, once a program has imported it."""

    def __init__(self) -> None:
        self._is_waiting = False
        self._is_installed = False

    def begin(self) -> None:
        """Begin a cell that is to be distributed."""
        if self._is_installed:
            from jupyter_ddl.auto_distribution.torch_loops import loops

            loops.begin()
        elif not self._is_waiting:
            self._is_waiting = True
            import_hooks.when_imported("torch", self._install)

    def _install(self, _torch: ModuleType) -> None:
        from jupyter_ddl.auto_distribution.torch_loops import loops

        loops.install()
        self._is_installed = True


def _begin(keras: ModuleType) -> None:
    auto = run_context.options().auto
    if keras.config.backend() == "jax" and (auto is None or auto.batch == GLOBAL):
        # `jax_training` distributes it.
        return
    from jupyter_ddl.auto_distribution import wrapped_methods

    wrapped_methods.begin()


def _refuse(_tf_keras: ModuleType) -> None:
    """Raise if the current run is to be distributed: the import may come cells after the hook was installed."""
    if run_context.options().auto is not None:
        raise _keras_2("tf_keras, imported")


def _keras_2(received: str) -> InvalidInput:
    return InvalidInput(
        "--auto distributes programs of Keras 3.",
        received,
        "Import keras, or tf.keras without TF_USE_LEGACY_KERAS; for Keras 2, write the program with Horovod.",
    )
