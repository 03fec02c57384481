"""Horovod on Keras 3, over Horovod's own collectives.

Stock `horovod.tensorflow.keras` trains unsynchronised on Keras 3: it wraps methods that Keras 3 no longer calls, so no
gradient is exchanged and nothing says so. Here the exchange sits in `Optimizer.apply`, which Keras 3 does call.

| module | owns |
|---|---|
| `collectives` | allreduce, allgather and broadcast of values and of variables |
| `exchange` | the gradients' way over the ranks |
| `optimizer` | the user's optimizer, with the exchange before each update |
| `callbacks` | what `fit` does besides: initial weights, metrics |
| `sync` | the proof that all ranks hold the same weights |

Users import it as `jupyter_ddl.keras`. Runs on: every rank. Kernel code never imports it.
"""
