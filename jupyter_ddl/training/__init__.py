"""Horovod on Keras 3: with TensorFlow over Horovod's own collectives, with PyTorch over torch.distributed.

Stock `horovod.tensorflow.keras` trains unsynchronised on Keras 3: it wraps methods that Keras 3 no longer calls, so no
gradient is exchanged, silently. Here the exchange is in `Optimizer.apply`, which Keras 3 does call.

| module | owns |
|---|---|
| `optimizer/` | the user's optimizer and GradientTape, with the exchange of gradients before each update |
| `step`, `step_settings` | the current training step: its turn, its samples, and how `--auto` wants it |
| `parts_of_batches` | batches that are trained in parts, for one update |
| `backends/` | what differs between Keras's backends |
| `batch_losses`, `batch_means`, `half_precision` | losses and metrics on a part of a batch |
| `fit/` | what Keras's `fit` does in addition on a rank |
| `callbacks/` | initial weights, metrics, learning rates, checkpoints |
| `metric_readings` | one rank's metrics of an epoch, and those of all ranks |
| `collectives`, `requirements` | collectives of values and of variables; what each requires |
| `timeline` | Horovod's timeline |
| `consistency/` | whether all ranks hold the same weights, and train on data of their own |
| `models/` | models from files, Keras 2's too |
| `elastic/` | training that continues after a failed collective |
| `seeds` | the random numbers that all ranks share, and those of each rank |
| `keras_version`, `initialisation` | which Keras a program gets; `hvd.init()` |
| `interrupted_tracing`, `unconverted` | tf.functions that were interrupted, and autograph |
| `spellings`, `code_names` | notices about older Horovod's arguments; what a function calls by name |

Users import it as `jupyter_ddl.keras`. Runs on: every rank. Kernel code never imports it.
"""
