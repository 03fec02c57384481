"""Renders the table as docs/legacy.md: `python -m jupyter_ddl.legacy.page > docs/legacy.md` writes it."""

from __future__ import annotations

import sys

from jupyter_ddl.protocol.old_spellings import ROWS

_HEAD = """# Old spellings

Programs written for older Keras, TensorFlow and Horovod run as they are: on the ranks, in `jupyter ddl run` and after
`import jupyter_ddl.keras`, each spelling below works on Keras 3, and says once what is written today. A call that works
without this is left alone, and saved models hold nothing of it, but for TensorFlow's functions between layers, by their
names. With Keras 2, or TF_USE_LEGACY_KERAS=1, none of it is there. `JUPYTER_DDL_LEGACY=0` switches it off.

Defaults are those of the Keras that is installed: `Adagrad()` of Keras 2.2 had another learning rate.

| written | today |
|---|---|
"""

_TAIL = """
What can no longer mean the same is an error that says so: `Nadam(schedule_decay=...)`, `target_tensors` of compile,
`train_on_batch(reset_metrics=False)`, `samples_per_epoch` with a generator that does not tell its batch size, `fit`
after `K.set_learning_phase(0)` and a switch between the two phases, `K.set_value` of a number, `K.function` with
updates, a fixed loss scale, `fit` with eager execution switched off, `load_weights` of a TensorFlow checkpoint that
Keras 2 wrote, a Lambda's code in a file (`safe_mode=False` runs it).

Every public name of Keras 2.15 that Keras 3 lacks is served, or reading it is an error that says what to write instead:
`keras.layers.LocallyConnected2D`, `DenseFeatures`, `tf.keras.estimator`, `keras.applications.regnet` and their like.

## Horovod's own Keras tests

Of the 12 of Horovod's tests for Keras that are for TensorFlow 2 (test/parallel/test_tensorflow2_keras.py and
test_tensorflow2_keras_process_sets.py, its main branch of June 2026), run by `jupyter ddl run -n 2` on Keras 3.15:

- 6 pass: train_model_lr_schedule, sparse_as_dense, legacy_optimizer, from_config, elastic_state,
  broadcast_global_variables_callback_with_local_vars.
- gradient_aggregation, gradient_aggregation_with_local_vars, process_set_optimizer fail: their optimizer is a class of
  its own for Keras 2 (no learning_rate, `update_step(gradient, variable)`, `get_gradients`).
- grad_aggregation_with_inf_grad, partial_distributed_optimizer fail: they call `_compute_gradients`, private to Keras
  2.11's optimizers; those of Keras 3 are given gradients.
- sparse_as_dense_with_grad_aggregation trains, then fails: it reads `_agg_helper`, private to Horovod's optimizer.

17 more are for TensorFlow 1 and skip themselves.
"""


def render() -> str:
    """Return the page."""
    return _HEAD + "".join(f"| `{row.written}` | {row.today} |\n" for row in ROWS) + _TAIL


if __name__ == "__main__":
    sys.stdout.write(render())
