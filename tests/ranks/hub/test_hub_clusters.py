"""Clusters with no kernel: the hub finds them in their folders, and ends them when it is asked to, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, gone_within
from servers import Notebook

if TYPE_CHECKING:
    from hub_server import Server

pytestmark = pytest.mark.mpi

START = "import jupyter_ddl\ns = jupyter_ddl.start(n=2, name={name!r}, keep={keep})\ns.run('x = 40 + rank')"
RULE = "A cluster is stopped here when it was kept and no kernel uses it. Received: "


def names(server: Server) -> list[str]:
    return [cluster["name"] for cluster in server.ask("GET", "clusters").json]


def refusal(server: Server, name: str) -> tuple[int, str]:
    reply = server.ask("DELETE", f"clusters/{name}")
    return reply.status, reply.json["message"]


def test_kept_ranks_are_listed_once_their_kernel_is_gone_and_end_when_asked_to(server: Server, other: Kernel) -> None:
    other.do(START.format(name="kept", keep=True))
    assert names(server) == []
    assert refusal(server, "kept") == (404, f"{RULE}'kept', which is none. It may have ended.")
    other.kill()
    found = server.ask("GET", "clusters").json
    assert [(cluster["name"], cluster["world_size"], cluster["devices"]) for cluster in found] == [("kept", 2, [])]
    assert found[0]["start_s"] > 1.7e9
    for name in ("..%2Fkept", "kep", "*", "%00"):
        assert refusal(server, name)[0] == 404
    assert names(server) == ["kept"]
    assert server.ask("DELETE", "clusters/kept").status == 204
    assert names(server) == []
    assert not gone_within(other, 1.0)


def test_ranks_that_another_kernel_attached_to_are_stopped_there(server: Server, other: Kernel) -> None:
    other.do(START.format(name="kept", keep=True))
    other.kill()
    with Notebook(server) as attached, server.browser() as browser:
        attached.do("%load_ext jupyter_ddl\n%ddl attach kept")
        browser.wait_for_cluster(attached.id, "idle")
        told = f"{RULE}'kept', which a kernel of this server has. Stop it there."
        assert refusal(server, "kept") == (409, told)
        server.api("DELETE", f"kernels/{attached.id}")
        browser.wait_for("kernel_gone", kernel=attached.id)
    assert names(server) == ["kept"]
    assert server.ask("DELETE", "clusters/kept").status == 204
    assert not gone_within(other, 1.0)


def test_ranks_that_end_with_their_kernel_are_not_listed(server: Server, other: Kernel) -> None:
    other.do(START.format(name="bound", keep=False))
    other.kill()
    assert names(server) == []
    assert not gone_within(other, 10.0)
