"""Answers requests for this host's devices, from which a form lets the user choose, and for its cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.host.cores import memory_limit_bytes, physical_cores, usable_cores
from jupyter_ddl.host.topology import default_rank_count, find_gpu, free_bytes, list_gpus, visible_gpus
from jupyter_ddl.server.requests import HubHandler

if TYPE_CHECKING:
    from jupyter_ddl.host.topology import Gpu


class DevicesHandler(HubHandler):
    """GET devices -> [{index, name, uuid, device, total_bytes, free_bytes}]: the GPUs that this server may use."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with each device, and how much of its memory is free now; none on a host without GPUs."""
        try:
            self.answer(await self.in_thread(_devices))
        except ClusterError as error:
            raise HTTPError(503, str(error)) from error


class HostHandler(HubHandler):
    """GET host -> {cores, free_bytes, ranks}: what this server's processes may use."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the usable cores, the memory that is free now, and the number of ranks where none is given."""
        self.answer(await self.in_thread(_room))


def _room() -> dict[str, int]:
    free_bytes = min(psutil.virtual_memory().available, memory_limit_bytes())
    ranks = default_rank_count(0, physical_cores())
    return {"cores": usable_cores(), "free_bytes": free_bytes, "ranks": ranks}


def _devices() -> list[dict[str, Any]]:
    known = list_gpus()
    gpus = [gpu for device in visible_gpus(known) if (gpu := find_gpu(device, known)) is not None]
    free = free_bytes([gpu.device for gpu in gpus])
    return [_device(gpu, free.get(gpu.device)) for gpu in gpus]


def _device(gpu: Gpu, free: int | None) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "device": gpu.device,
        "total_bytes": gpu.memory_total_bytes,
        "free_bytes": free,
    }
