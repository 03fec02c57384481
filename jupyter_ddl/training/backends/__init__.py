"""Gives what differs between Keras's backends: everything else of `training` is written once.

| module | owns |
|---|---|
| `interface` | what a backend provides: `Ops`, `Arrays`, and a step's `Clock` and numbers |
| `tensorflow_ops`, `tensorflow_exchange`, `tensorflow_arrays` | TensorFlow |
| `tensorflow_clock`, `tensorflow_last_batch`, `tensorflow_seed` | what TensorFlow measures and keeps |
| `torch_ops`, `torch_variables`, `torch_clock`, `torch_arrays` | PyTorch |
| `jax_ops`, `jax_program`, `jax_clock`, `jax_arrays` | JAX, where a step is one program of all ranks |
| `jax_sharded` | reads variables of which each of JAX's processes has its part |
| `jax_collectives`, `jax_meshes` | Horovod's API over JAX's processes |
| `site_exchange`, `tensorflow_site_exchange` | gradients that go through a site's library |
| `held_values`, `without_graphs`, `kept_by_keras` | operations that two backends have alike |
| `flat_exchange`, `keras_seed`, `host_arrays`, `host_clock` | what PyTorch and JAX have alike |
| `made_functions` | attributes of a model while Keras makes a function of it |
| `refused` | operations that a backend has nothing for |

`hvd` has Horovod's names: with TensorFlow it is `horovod.tensorflow`, else what `horovod_api` has. `ops` are the
operations of a training step, and `arrays` what `--auto` does with arrays outside of steps. A step of TensorFlow is
traced once, so what depends on values must be an operation there; PyTorch runs them at once. On JAX a step is a
function of its state.

Keras's backend is settled when Keras is imported. To add one: modules with the functions of `Ops`, some of which are
here, one with those of Horovod's that `horovod_api.torch_collectives` has, and a branch that puts them together.

Runs on: every rank.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.training.backends.interface import Arrays, Ops


def _together(*modules: ModuleType) -> Any:
    """Return the names of what several modules define, as those of one."""
    owners = {one.__name__ for one in modules}
    return SimpleNamespace(
        **{name: value for one in modules for name, value in vars(one).items() if _owner_of(value) in owners}
    )


def _owner_of(value: Any) -> Any:
    return getattr(value, "__module__", None)


TENSORFLOW, TORCH, JAX = "tensorflow", "torch", "jax"
BACKEND: str = keras.config.backend()
hvd: Any
ops: Ops
arrays: Arrays
if BACKEND == JAX:
    from jupyter_ddl.horovod_api import environment_ranks, process_sets
    from jupyter_ddl.training.backends import (
        flat_exchange,
        host_arrays,
        jax_arrays,
        jax_clock,
        jax_collectives,
        jax_meshes,
        jax_ops,
        jax_program,
        jax_sharded,
        kept_by_keras,
        keras_seed,
        refused,
        without_graphs,
    )

    hvd = _together(jax_collectives, jax_meshes, process_sets, environment_ranks)
    ops = _together(
        jax_ops,
        jax_program,
        jax_clock,
        jax_sharded,
        flat_exchange,
        kept_by_keras,
        keras_seed,
        without_graphs,
        refused,
    )
    arrays = _together(jax_arrays, host_arrays)
elif BACKEND == TORCH:
    from jupyter_ddl.horovod_api import environment_ranks, process_sets, torch_collectives, torch_process_sets
    from jupyter_ddl.training.backends import (
        flat_exchange,
        held_values,
        host_arrays,
        keras_seed,
        refused,
        torch_arrays,
        torch_clock,
        torch_ops,
        torch_variables,
        without_graphs,
    )

    hvd = _together(torch_collectives, torch_process_sets, process_sets, environment_ranks)
    ops = _together(
        torch_ops, torch_variables, torch_clock, flat_exchange, held_values, keras_seed, without_graphs, refused
    )
    arrays = _together(torch_arrays, host_arrays)
else:
    import horovod.tensorflow as horovod_tensorflow

    from jupyter_ddl.training.backends import (
        held_values,
        kept_by_keras,
        tensorflow_arrays,
        tensorflow_clock,
        tensorflow_exchange,
        tensorflow_last_batch,
        tensorflow_ops,
        tensorflow_seed,
    )

    hvd = horovod_tensorflow
    ops = _together(
        tensorflow_ops,
        tensorflow_exchange,
        tensorflow_clock,
        tensorflow_last_batch,
        tensorflow_seed,
        held_values,
        kept_by_keras,
    )
    arrays = _together(tensorflow_arrays)

global_process_set: Any = hvd.global_process_set
