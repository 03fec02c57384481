"""Provides the hook by which sessions of TensorFlow 1 start from one rank's weights.

Stock Horovod has it where TensorFlow has `tf.estimator`, which it no longer has from 2.16 on; sessions are still there.
Source: horovod 0.28.1, horovod/tensorflow/__init__.py (`_SessionRunHook`).

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Give all ranks the root rank's global variables when a monitored session has been created.

    Collective: every rank must create its session with this hook.

    Args:
        root_rank: whose values win.
        device: TensorFlow's device for the broadcast; "" leaves it to TensorFlow.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._broadcast: Any = None

    def begin(self) -> None:
        """Add the operation to the graph, which takes no more once its session is there."""
        with tf.device(self.device):
            self._broadcast = hvd.broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:  # noqa: ARG002 (TensorFlow's signature)
        """Broadcast: the variables have their initial values, or a checkpoint's."""
        session.run(self._broadcast)
