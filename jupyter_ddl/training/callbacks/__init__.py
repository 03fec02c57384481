"""What `fit` does on several ranks besides training, as Keras callbacks; one a file.

Runs on: every rank. All ranks pass the same callbacks of this package, in the same order.
"""

from jupyter_ddl.training.callbacks.broadcast_global_variables import BroadcastGlobalVariablesCallback
from jupyter_ddl.training.callbacks.metric_average import MetricAverageCallback

__all__ = ["BroadcastGlobalVariablesCallback", "MetricAverageCallback"]
