"""Provides Horovod's Keras callbacks, one a file.

Runs on: every rank. All ranks pass the same callbacks of this package, in the same order; BestModelCheckpoint alone
may be on one rank only.
"""

from jupyter_ddl.training.callbacks.best_model_checkpoint import BestModelCheckpoint
from jupyter_ddl.training.callbacks.broadcast_global_variables import BroadcastGlobalVariablesCallback
from jupyter_ddl.training.callbacks.learning_rate_schedule import LearningRateScheduleCallback
from jupyter_ddl.training.callbacks.learning_rate_warmup import LearningRateWarmupCallback
from jupyter_ddl.training.callbacks.metric_average import MetricAverageCallback

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]
