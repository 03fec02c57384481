"""Horovod on Keras 3, over Horovod's own collectives.

Stock `horovod.tensorflow.keras` trains unsynchronised on Keras 3: it wraps methods that Keras 3 no longer calls, so no
gradient is exchanged and nothing says so. Here the exchange sits in `Optimizer.apply`, which Keras 3 does call.

| module | owns |
|---|---|
| `install` | makes a rank ready before the program imports anything |
| `optimizer`, `tape` | the user's optimizer and GradientTape, with the exchange before each update |
| `exchange`, `groups`, `accumulation`, `local_variables`, `options` | the gradients' way over the ranks |
| `step` | what a training step knows of itself: whose turn it is, with how many samples |
| `fit` | what Keras's `fit` does on a rank besides |
| `callbacks` | initial weights, metrics, rates, checkpoints; `learning_rate` and `metric_readings` serve them |
| `collectives`, `timeline` | collectives of values and of variables; Horovod's timeline |
| `sync`, `comparison` | the proof that all ranks hold the same weights, exact and cheap |
| `load_model`, `keras2_files` | models from files, Keras 2's too |
| `elastic` | going on after a failed collective |
| `local_datasets` | `keras.datasets` from this machine's copies |

Users import it as `jupyter_ddl.keras`. Runs on: every rank. Kernel code never imports it.
"""
