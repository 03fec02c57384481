"""Adds to `fit` and `train_on_batch` of any Keras model what a rank needs.

| module | owns |
|---|---|
| `wrapped_methods` | the methods of Keras that are wrapped, and what each then does |
| `first_batches` | what the ranks know of each other's batches before the first step |
| `uneven_batches` | ranks with fewer batches, or that stop early, wait for the others |
| `weights_check`, `on_batch` | weights and batches are compared, in `fit` and in `train_on_batch` |
| `interrupted_fit` | after an interrupt all ranks continue from one rank's weights |
| `evaluation_step` | TensorFlow's test step, which counts no batch that is missing |
| `jax_evaluation` | JAX's test function, which keeps the model's state where no batch is left |
| `samples` | how many samples each epoch had, for averages over samples |
| `saving` | the interface of what saves a training |
| `given_parameters` | what `fit` was given, for the run's record |
| `telemetry` | how fast it trains, and where the time of a step goes |
| `unexchanged`, `unsynchronized` | warn where several ranks train with no exchange at all, or a layer promises one |

Runs on: every rank.
"""

from jupyter_ddl.training.fit.samples import samples_seen
from jupyter_ddl.training.fit.wrapped_methods import install

__all__ = ["install", "samples_seen"]
