"""TensorFlow's own strategies on the ranks: `from jupyter_ddl import strategies`.

    strategies.set_tf_config()                  before tf.distribute.MultiWorkerMirroredStrategy()
    with strategies.parameter_server() as strategy:     a coordinator on rank 0, a worker on each rank

| module | holds |
|---|---|
| `addresses` | TF_CONFIG's addresses, on ports that are free |
| `multi_worker` | TF_CONFIG for MultiWorkerMirroredStrategy |
| `parameter_server` | the servers and the coordinator of ParameterServerStrategy |
| `one_cluster` | a process is in one cluster of TensorFlow's |
| `waiting` | a wait for rank 0 that an interrupt ends |

OneDeviceStrategy, MirroredStrategy and CentralStorageStrategy take one process, and nothing of ours.
docs/strategies.md says which Keras trains under which. Runs on: every rank.
"""

from __future__ import annotations

from jupyter_ddl.strategies.multi_worker import set_tf_config
from jupyter_ddl.strategies.parameter_server import parameter_server

__all__ = ["parameter_server", "set_tf_config"]
