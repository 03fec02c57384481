"""Gives what differs between Keras's backends: everything else of `training` is written once.

| module | owns |
|---|---|
| `interface` | what a backend provides: `Ops`, `Arrays`, and a step's `Clock` and numbers |
| `tensorflow_ops`, `tensorflow_exchange`, `tensorflow_arrays` | TensorFlow |
| `tensorflow_clock`, `tensorflow_last_batch` | what a graph of TensorFlow's measures and keeps |
| `torch_ops`, `torch_variables`, `torch_clock`, `torch_arrays` | PyTorch |
| `torch_collectives`, `torch_process_sets` | Horovod's API over torch.distributed |
| `jax_ops`, `jax_program`, `jax_clock`, `jax_arrays` | JAX, where a step is one program of all ranks |
| `jax_collectives`, `jax_meshes` | Horovod's API over JAX's processes |
| `environment_ranks`, `process_sets`, `horovod` | ranks without Horovod; the package that Horovod is else |
| `site_exchange`, `tensorflow_site_exchange` | gradients that go through a site's library |
| `made_functions` | attributes of a model while Keras makes a function of it |
| `refused` | names that a backend has nothing for |

`hvd` has Horovod's names: with TensorFlow it is `horovod.tensorflow`. `ops` are the operations of a training step, and
`arrays` what `--auto` does with arrays outside of steps. A step of TensorFlow is traced once, so what depends on values
must be an operation there; PyTorch runs them at once. On JAX a step is a function of its state.

Keras's backend is settled when Keras is imported. To add one: a module with the functions of `Ops`, one with those of
Horovod's that `torch_collectives` has, and a branch here.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import keras

if TYPE_CHECKING:
    from jupyter_ddl.training.backends.interface import Arrays, Ops

TENSORFLOW, TORCH, JAX = "tensorflow", "torch", "jax"
BACKEND: str = keras.config.backend()
hvd: Any
ops: Ops
arrays: Arrays
if BACKEND == JAX:
    from jupyter_ddl.training.backends import jax_arrays, jax_collectives, jax_ops

    hvd, ops, arrays = jax_collectives, cast("Ops", jax_ops), cast("Arrays", jax_arrays)
elif BACKEND == TORCH:
    from jupyter_ddl.training.backends import torch_arrays, torch_collectives, torch_ops

    hvd, ops, arrays = torch_collectives, cast("Ops", torch_ops), cast("Arrays", torch_arrays)
else:
    import horovod.tensorflow as horovod_tensorflow

    from jupyter_ddl.training.backends import tensorflow_arrays, tensorflow_ops

    hvd, ops, arrays = horovod_tensorflow, cast("Ops", tensorflow_ops), cast("Arrays", tensorflow_arrays)

global_process_set: Any = hvd.global_process_set
