"""Continues a training after a failed collective: Horovod's `hvd.elastic`, as far as MPI allows.

An MPI job cannot grow or shrink, and a rank that dies ends the job. What is left: state is committed from time to time;
where a collective fails on all ranks, they restore the last commit, initialise Horovod again and retry. There are no
host updates and no discovery scripts, and the size of the world stays, so reset callbacks find the old one.

| module | owns |
|---|---|
| `state` | what is committed and restored |
| `rerun` | retrying, where all ranks can |
| `callbacks` | committing, and counting batches and epochs, during `fit` |

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
