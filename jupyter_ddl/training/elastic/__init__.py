"""Training that goes on after a failed collective: Horovod's `hvd.elastic`, as far as MPI allows.

An MPI job cannot grow or shrink, and a rank that dies takes the job with it. What is left: state is committed now and
then; where a collective fails on all ranks, they go back to the last commit, initialise Horovod anew and try again.
There are no host updates, no discovery scripts, and the size of the world stays, so reset callbacks find the old one.

| module | owns |
|---|---|
| `state` | what is committed, and brought back |
| `rerun` | trying again, where all ranks can |
| `callbacks` | what commits, and counts batches and epochs, during `fit` |

Runs on: every rank.
"""

from jupyter_ddl.training.elastic.callbacks import (
    CommitStateCallback,
    UpdateBatchStateCallback,
    UpdateEpochStateCallback,
)
from jupyter_ddl.training.elastic.rerun import run
from jupyter_ddl.training.elastic.state import KerasState

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]
