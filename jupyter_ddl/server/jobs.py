"""Answers requests for the batch jobs that this user submitted, of which a kernel need not know any more."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.cluster import job_list
from jupyter_ddl.cluster.job_folder import submitted
from jupyter_ddl.cluster.jobs_known import scheduler_here
from jupyter_ddl.errors import ClusterError, HostUnfit, NoCluster
from jupyter_ddl.server.requests import HubHandler, quoted
from jupyter_ddl.views.job_texts import listed_text


class JobsHandler(HubHandler):
    """GET jobs -> [{job, title, name, world_size, state, text, ends_at_s}]: those that wait or run."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with each job that `%ddl submit` sent; 503, in the scheduler's words, where it does not answer."""
        try:
            # A scheduler that is slow to answer holds one thread of the hub's, however many browsers look on.
            async with self._hub.scheduler:
                self.answer(await self.in_thread(listing))
        except ClusterError as error:
            raise HTTPError(503, str(error)) from error


class JobHandler(HubHandler):
    """DELETE jobs/NUMBER."""

    @authenticated
    @authorized
    async def delete(self, number: str) -> None:
        """End a job, or take it from its queue, as `%ddl jobs --cancel` does."""
        if number in self._in_use():
            rule = f"A job is ended here when no kernel uses it. Received: {quoted(number)}"
            raise HTTPError(409, f"{rule}, which a kernel of this server has. Stop it there.")
        try:
            await self.in_thread(job_list.cancel, number)
        except NoCluster as error:
            raise HTTPError(404, str(error)) from error
        except ClusterError as error:
            raise HTTPError(503, str(error)) from error
        self.set_status(204)
        self.finish()

    def _in_use(self) -> set[str]:
        found = [state.cluster for state in self._hub.kernels.states() if state.cluster is not None]
        titles = [cluster.get("job") or "" for cluster in found if cluster.get("state") != "stopped"]
        # A job's title ends with its number.
        return {title.rpartition(" ")[2] for title in titles}


def listing() -> list[dict[str, Any]]:
    """Return the jobs; none, and the scheduler is not asked, where none was submitted or it is not on this host.

    Raises:
        ClusterError: the scheduler does not answer.
    """
    if next(submitted(), None) is None:
        return []
    try:
        scheduler = scheduler_here()
    except HostUnfit:
        return []
    found = []
    for order, job in job_list.waiting_or_running():
        title = f"{scheduler.title} job {job.id}"
        text = listed_text(title, job.state, job.reason, job.ahead, job.starts_at_s, job.nodes)
        known = {"job": job.id, "title": title, "name": order.name, "world_size": order.n}
        found.append({**known, "state": job.state, "text": text, "ends_at_s": job.ends_at_s})
    return found
