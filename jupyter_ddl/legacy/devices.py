"""Serves programs that choose a GPU by `gpus[hvd.local_rank()]`, with memory that grows.

On our ranks the choice is made before TensorFlow starts: each sees one GPU, its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


# What TensorFlow says of a GPU whose memory has a limit (`engine.gpu_share`).
# Source: TensorFlow 2.21, tensorflow/python/eager/context.py, set_memory_growth.
_HAS_A_LIMIT = "virtual devices configured"


class OwnDevices(list[Any]):
    """The one GPU of this rank, which programs ask for by their rank on the host."""

    def __getitem__(self, index: Any) -> Any:
        """Return the GPU at an index: the only one, for whichever rank."""
        if isinstance(index, int) and index >= len(self):
            say("gpus[hvd.local_rank()]")
            index = 0
        return super().__getitem__(index)


def patch_devices(tf: ModuleType) -> None:
    """Let a program pick its GPU by local rank, and ask for growing memory."""
    for owner in (tf.config, tf.config.experimental):
        wrap(owner, "list_physical_devices", _list)
        if hasattr(owner, "set_memory_growth"):
            wrap(owner, "set_memory_growth", _grow)


def follow(tf: Any, config: Any) -> None:
    """Do what a session's configuration asks of the GPUs, where start-up has not: in a process that sees several.

    Args:
        tf: the module `tensorflow`.
        config: a `tf.compat.v1.ConfigProto`, or None.
    """
    chosen = config.gpu_options.visible_device_list if config is not None else ""
    if not chosen:
        return
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) < 2:
        return
    own = [gpus[int(number)] for number in chosen.split(",")]
    tf.config.set_visible_devices(own, "GPU")
    for gpu in own if config.gpu_options.allow_growth else []:
        tf.config.experimental.set_memory_growth(gpu, True)


def without_device(tf: Any, config: Any) -> Any:
    """Return the configuration without the choice of a GPU where one is visible: its number here is 0."""
    if config is None or not config.gpu_options.visible_device_list or len(tf.config.list_physical_devices("GPU")) > 1:
        return config
    mine = type(config)()
    mine.CopyFrom(config)
    mine.gpu_options.ClearField("visible_device_list")
    return mine


def _list(stock: Callable[..., list[Any]], device_type: str | None = None) -> list[Any]:
    devices = stock(device_type)
    return own_devices(devices) if device_type == "GPU" else devices


def own_devices(devices: list[Any]) -> list[Any]:
    """Return a rank's GPUs: where it has been given one, the list that answers to any local rank."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return OwnDevices(devices) if len(devices) == 1 and given and "," not in given else devices


def _grow(stock: Callable[..., None], device: Any, enable: bool) -> None:
    try:
        stock(device, enable)
    except (RuntimeError, ValueError) as error:
        # "cannot be modified after being initialized"; it grows, since start-up says so.
        is_known = isinstance(error, RuntimeError) or _HAS_A_LIMIT in str(error)
        if not is_known or not enable or os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") != "true":
            raise
        say("set_memory_growth")
