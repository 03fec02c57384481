"""Gives programs Horovod's API where no Horovod exchanges: over torch.distributed.

| module | owns |
|---|---|
| `environment_ranks`, `process_sets` | ranks, sets of them, and how values are reduced |
| `arguments` | what every framework's functions take alike |
| `torch_process_sets` | the groups of torch.distributed in which sets exchange |
| `torch_reductions`, `torch_collectives` | the collectives |
| `torch_differentiable` | their gradients |
| `torch_functions` | them as `horovod.torch` has them |
| `torch_gradients`, `torch_optimizer` | `DistributedOptimizer` of PyTorch's optimizers |
| `torch_states` | weights and states of optimizers that are sent to all ranks |
| `horovod`, `horovod_torch` | what `import horovod` and `import horovod.torch` give there |
| `refused` | names for which there is nothing |

Keras on PyTorch exchanges by these too; over JAX's processes it has the same names from `training.backends`.

Runs on: every rank.
"""
