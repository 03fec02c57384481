"""docs/legacy.md: the table, for people. `python -m jupyter_ddl.legacy.page > docs/legacy.md` writes it."""

from __future__ import annotations

import sys

from jupyter_ddl.legacy.table import ROWS

_HEAD = """# Old spellings

Programs written for older Keras, TensorFlow and Horovod run as they are: on the ranks, in `jupyter ddl run` and after
`import jupyter_ddl.keras`, each spelling below works on Keras 3, and says once what is written today. A call that works
without this is left alone, and saved models hold nothing of it. With Keras 2, or TF_USE_LEGACY_KERAS=1, none of it is
there. `JUPYTER_DDL_LEGACY=0` switches it off.

Defaults are those of the Keras that is installed: `Adagrad()` of Keras 2.2 had another learning rate.

| written | today |
|---|---|
"""

_TAIL = """
What can no longer mean the same is an error that says so: `Nadam(schedule_decay=...)`, `target_tensors` of compile,
`train_on_batch(reset_metrics=False)`, `samples_per_epoch` with a generator that does not tell its batch size, `fit`
after `K.set_learning_phase(0)` and a switch between the two phases, `K.set_value` of a number, `K.function` with
updates, a fixed loss scale, `fit` with eager execution switched off, `load_weights` of a TensorFlow checkpoint that
Keras 2 wrote.
"""


def render() -> str:
    """Return the page."""
    return _HEAD + "".join(f"| `{row.written}` | {row.today} |\n" for row in ROWS) + _TAIL


if __name__ == "__main__":
    sys.stdout.write(render())
