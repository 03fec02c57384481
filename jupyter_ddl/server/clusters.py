"""Answers requests for kept clusters, which run though the kernel that started them is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from psutil import NoSuchProcess
from tornado.web import HTTPError, authenticated

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster.folder import kept
from jupyter_ddl.server.requests import HubHandler, quoted

if TYPE_CHECKING:
    from jupyter_ddl.cluster.folder import ClusterFolder


class ClustersHandler(HubHandler):
    """GET clusters -> [{name, world_size, devices, start_s}]: those that were kept, by name."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with each cluster that outlived the kernel that started it; another one may have attached."""
        self.answer(await self.in_thread(_listing))


class ClusterHandler(HubHandler):
    """DELETE clusters/NAME."""

    @authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """End the ranks of a cluster that was kept, as `%ddl stop` of a kernel that attached does."""
        rule = "A cluster is stopped here when it was kept and no kernel uses it."
        if name in self._in_use():
            raise HTTPError(409, f"{rule} Received: {quoted(name)}, which a kernel of this server has. Stop it there.")
        if not await self.in_thread(_stop, name):
            raise HTTPError(404, f"{rule} Received: {quoted(name)}, which is none. It may have ended.")
        self.set_status(204)
        self.finish()

    def _in_use(self) -> set[str]:
        found = [state.cluster for state in self._hub.kernels.states() if state.cluster is not None]
        return {str(cluster.get("name")) for cluster in found if cluster.get("state") != "stopped"}


def _listing() -> list[dict[str, Any]]:
    found = [_described(folder) for folder in kept()]
    return [cluster for cluster in found if cluster is not None]


def _described(folder: ClusterFolder) -> dict[str, Any] | None:
    try:
        lease, spec = folder.lease(), folder.spec()
        start_s = None if lease is None else lease.create_time()
    except (ValueError, NoSuchProcess):
        # It ends at this moment.
        return None
    if start_s is None:
        return None
    return {"name": folder.name, "world_size": spec.n, "devices": list(spec.devices), "start_s": start_s}


def _stop(name: str) -> bool:
    """End the cluster of exactly that name; return whether there is one."""
    for folder in kept():
        # Ours: lease.json names it, and its creation time was compared.
        if folder.name == name and (lease := folder.lease()) is not None:
            leases.terminate(lease)
            return True
    return False
