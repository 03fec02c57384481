"""Makes old Keras and TensorFlow spellings work on Keras 3, so that programs written for Horovod run unchanged.

Each old spelling is a row of `protocol/old_spellings.ROWS`; its first use prints what is written today. Calls that work
today are left alone, saved models hold nothing of ours, and a spelling that cannot mean the same any more is an error.

| module | owns |
|---|---|
| `notices` | prints each row's sentence once |
| `page` | docs/legacy.md |
| `hooks` | waits for Keras and TensorFlow to be imported |
| `names` | names that left Keras's modules, and modules that left Keras |
| `wrapping` | how a method of Keras is wrapped, or added |
| `optimizers`, `compile_and_fit`, `inputs`, `metric_names`, `layers` | training |
| `checkpoints`, `model_files`, `hdf5` | ModelCheckpoint and other callbacks; models and weights in files |
| `sessions`, `devices` | what TensorFlow 1 and 2 programs do before they train |
| `horovod_sessions` | `BroadcastGlobalVariablesHook`, for sessions of TensorFlow 1 |
| `backend`, `learning_phase`, `modules` | keras.backend; where other names went |
| `private_keras` | `tensorflow.python.keras` |
| `restored`, `gone` | names of Keras 2.15 that a few lines serve; those that say what to write instead |
| `symbolic`, `lambdas` | TensorFlow's functions between layers; a Lambda's functions in files |

JUPYTER_DDL_LEGACY=0 switches it off. To remove it one day, delete this folder and the calls of `install`.

Runs on: every rank.
"""

from __future__ import annotations

import os

from jupyter_ddl.legacy import hooks
from jupyter_ddl.legacy.notices import printed_rows
from jupyter_ddl.paths import LEGACY_VARIABLE

__all__ = ["install", "is_wanted", "printed_rows"]


def is_wanted() -> bool:
    """Return whether old spellings are to work here."""
    return os.environ.get(LEGACY_VARIABLE, "1") != "0" and os.environ.get("TF_USE_LEGACY_KERAS") not in (
        "true",
        "True",
        "1",
    )


def install() -> None:
    """Make old spellings work, now or as soon as Keras 3 and TensorFlow are imported.

    Imports neither of them. With Keras 2, TF_USE_LEGACY_KERAS=1 or JUPYTER_DDL_LEGACY=0 it changes nothing. Safe to
    call again.
    """
    if is_wanted():
        hooks.install()
