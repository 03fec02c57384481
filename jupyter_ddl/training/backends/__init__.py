"""Gives what differs between Keras's backends: everything else of `training` is written once.

| module | owns |
|---|---|
| `interface` | what a backend provides: `Ops`, `Arrays`, and a step's `Clock` and numbers |
| `tensorflow_ops`, `tensorflow_exchange`, `tensorflow_arrays` | TensorFlow |
| `tensorflow_clock`, `tensorflow_last_batch`, `tensorflow_seed` | what TensorFlow measures and keeps |
| `torch_ops`, `torch_variables`, `torch_clock`, `torch_arrays` | PyTorch |
| `torch_collectives`, `torch_process_sets` | Horovod's API over torch.distributed |
| `jax_ops`, `jax_program`, `jax_clock`, `jax_arrays` | JAX, where a step is one program of all ranks |
| `jax_collectives`, `jax_meshes` | Horovod's API over JAX's processes |
| `environment_ranks`, `process_sets`, `horovod` | ranks without Horovod; the package that Horovod is else |
| `site_exchange`, `tensorflow_site_exchange` | gradients that go through a site's library |
| `held_values`, `without_graphs`, `kept_by_keras` | operations that two backends have alike |
| `flat_exchange`, `keras_seed`, `host_arrays`, `host_clock` | what PyTorch and JAX have alike |
| `made_functions` | attributes of a model while Keras makes a function of it |
| `refused` | names that a backend has nothing for |

`hvd` has Horovod's names: with TensorFlow it is `horovod.tensorflow`. `ops` are the operations of a training step, and
`arrays` what `--auto` does with arrays outside of steps. A step of TensorFlow is traced once, so what depends on values
must be an operation there; PyTorch runs them at once. On JAX a step is a function of its state.

Keras's backend is settled when Keras is imported. To add one: modules with the functions of `Ops`, some of which are
here, one with those of Horovod's that `torch_collectives` has, and a branch here.

Runs on: every rank.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import keras

from jupyter_ddl.training.backends import (
    flat_exchange,
    held_values,
    host_arrays,
    interface,
    kept_by_keras,
    refused,
    without_graphs,
)

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.training.backends.interface import Arrays, Ops

TENSORFLOW, TORCH, JAX = "tensorflow", "torch", "jax"
BACKEND: str = keras.config.backend()
hvd: Any
# The modules that have the operations of a step, and those that have what is done with arrays.
_ops: tuple[ModuleType, ...]
_arrays: tuple[ModuleType, ...]
if BACKEND == JAX:
    from jupyter_ddl.training.backends import jax_arrays, jax_clock, jax_collectives, jax_ops, jax_program, keras_seed

    hvd, _arrays = jax_collectives, (jax_arrays, host_arrays)
    _ops = jax_ops, jax_program, jax_clock, flat_exchange, kept_by_keras, keras_seed, without_graphs, refused
elif BACKEND == TORCH:
    from jupyter_ddl.training.backends import (
        keras_seed,
        torch_arrays,
        torch_clock,
        torch_collectives,
        torch_ops,
        torch_variables,
    )

    hvd, _arrays = torch_collectives, (torch_arrays, host_arrays)
    _ops = torch_ops, torch_variables, torch_clock, flat_exchange, held_values, keras_seed, without_graphs, refused
else:
    import horovod.tensorflow as horovod_tensorflow

    from jupyter_ddl.training.backends import (
        tensorflow_arrays,
        tensorflow_clock,
        tensorflow_exchange,
        tensorflow_last_batch,
        tensorflow_ops,
        tensorflow_seed,
    )

    hvd, _arrays = horovod_tensorflow, (tensorflow_arrays,)
    _ops = (
        tensorflow_ops,
        tensorflow_exchange,
        tensorflow_clock,
        tensorflow_last_batch,
        tensorflow_seed,
        held_values,
        kept_by_keras,
    )


def _together(protocol: type, modules: tuple[ModuleType, ...]) -> Any:
    """Return what a protocol names, of what the modules define."""
    owners = {one.__name__ for one in modules}
    known = {name: value for one in modules for name, value in vars(one).items() if _owner_of(value) in owners}
    return SimpleNamespace(**{name: known[name] for name in vars(protocol) if name in known})


def _owner_of(value: Any) -> Any:
    return getattr(value, "__module__", None)


ops = cast("Ops", _together(interface.Ops, _ops))
arrays = cast("Arrays", _together(interface.Arrays, _arrays))
global_process_set: Any = hvd.global_process_set
