"""Gives what differs between Keras's backends: everything else of `training` is written once.

| module | owns |
|---|---|
| `interface` | what a backend provides: `Ops`, `Arrays`, and a step's `Clock` and numbers |
| `tensorflow_ops`, `tensorflow_exchange`, `tensorflow_arrays` | TensorFlow |
| `tensorflow_clock`, `tensorflow_last_batch` | what a graph of TensorFlow's measures and keeps |
| `torch_ops`, `torch_variables`, `torch_clock`, `torch_arrays` | PyTorch |
| `torch_collectives`, `torch_process_sets` | Horovod's API over torch.distributed |
| `environment_ranks`, `horovod` | this rank without Horovod; the package that Horovod is else |
| `made_functions` | attributes of a model while Keras makes a function of it |
| `refused` | names that a backend has nothing for |

`hvd` has Horovod's names: with TensorFlow it is `horovod.tensorflow`. `ops` are the operations of a training step, and
`arrays` what `--auto` does with arrays outside of steps. A step of TensorFlow is traced once, so what depends on values
must be an operation there; PyTorch runs them at once.

Keras's backend is settled when Keras is imported. To add one: a module with the functions of `Ops`, one with those of
Horovod's that `torch_collectives` has, and a branch here.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import keras

if TYPE_CHECKING:
    from jupyter_ddl.training.backends.interface import Arrays, Ops

from jupyter_ddl.errors import InvalidInput

TENSORFLOW, TORCH, JAX = "tensorflow", "torch", "jax"
BACKEND: str = keras.config.backend()
hvd: Any
ops: Ops
arrays: Arrays
if BACKEND == JAX:
    raise InvalidInput(
        "Horovod's API and jupyter_ddl.keras are for Keras on TensorFlow and PyTorch: a step on JAX takes no exchange.",
        "KERAS_BACKEND=jax",
        "Write the program for one process, and run it with %%distributed --auto --batch global.",
    )
if BACKEND == TORCH:
    from jupyter_ddl.training.backends import torch_arrays, torch_collectives, torch_ops

    hvd, ops, arrays = torch_collectives, cast("Ops", torch_ops), cast("Arrays", torch_arrays)
else:
    import horovod.tensorflow as horovod_tensorflow

    from jupyter_ddl.training.backends import tensorflow_arrays, tensorflow_ops

    hvd, ops, arrays = horovod_tensorflow, cast("Ops", tensorflow_ops), cast("Arrays", tensorflow_arrays)

global_process_set: Any = hvd.global_process_set
