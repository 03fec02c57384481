"""What the hosts of a cluster have: one rank of each is asked, the records of runs hold it, and the magic shows it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from kernel_sides import RANKS, TestCluster, finished, ready

from jupyter_ddl.cluster.host_topologies import HostTopologies
from jupyter_ddl.host.untrusted_files import MAX_JSON_BYTES
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.host_topology import HostGpu, HostTopology, Interface, topology_record
from jupyter_ddl.protocol.rank_answers import HostDescribed
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.protocol.requests import DescribeHost, RunCell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.protocol.requests import Request

HAS = HostTopology((), "NVML finds none", (Interface("eth0", "10.0.0.1", 1_000),))
HOSTS = ("node-b", "node-b", "node-a", "node-a")


class Transport:
    """Notes which ranks are asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:
        assert now
        assert request == DescribeHost()
        self.asked.append(tuple(ranks))

    def close(self) -> None:
        pass


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def topologies(transport: Transport) -> HostTopologies:
    ranks = {rank: RankReady(rank, 4, rank % 2, host, 1, "CPU", 1) for rank, host in enumerate(HOSTS)}
    return HostTopologies(ranks, transport)


def test_the_first_rank_of_each_host_is_asked_and_no_other_where_all_answer(
    topologies: HostTopologies, transport: Transport
) -> None:
    topologies.ask()
    assert transport.asked == [(0, 2)]
    assert topologies.record() == {"gpus": [], "interfaces": {}}
    topologies.handle(HostDescribed(2, "node-a", HAS))
    assert list(topologies.record()["interfaces"]) == ["node-a"]
    topologies.handle(HostDescribed(0, "node-b", HAS))
    assert topologies.wait() == {"node-b": HAS, "node-a": HAS}
    assert list(topologies.wait()) == ["node-b", "node-a"], "in the order of ranks"
    assert transport.asked == [(0, 2)], "asked once"
    record = topologies.record()
    assert record["gpus"] == [{"hosts": ["node-b", "node-a"], "gpus": [], "no_gpus": "NVML finds none"}]
    assert record["interfaces"]["node-a"][0]["mbit_per_s"] == 1_000


def test_the_record_of_a_thousand_hosts_is_a_small_part_of_a_file_that_is_read() -> None:
    gpus = tuple(HostGpu(at, "NVIDIA H200", f"00000000:{at:02x}:00.0", ("NV18",) * 8, "0", "0-31") for at in range(8))
    interfaces = (Interface("ib0", "10.100.100.100", 400_000, True), Interface("eth0", "10.1.100.100", 10_000))
    record = topology_record({f"node{at:04}": HostTopology(gpus, None, interfaces) for at in range(1_000)})
    assert len(record["gpus"]) == 1
    assert len(json.dumps(record)) < MAX_JSON_BYTES / 10


def test_where_one_does_not_answer_all_ranks_of_its_host_are_asked(
    topologies: HostTopologies, transport: Transport
) -> None:
    topologies.ask()
    topologies.handle(HostDescribed(2, "node-a", HAS))
    assert topologies.wait(0.01) == {"node-b": None, "node-a": HAS}
    assert transport.asked[1:] == [(0, 1)]
    answer = threading.Timer(0.05, topologies.handle, [HostDescribed(1, "node-b", HAS)])
    answer.start()
    assert topologies.wait()["node-b"] == HAS
    answer.join()


@pytest.mark.parametrize("is_early", [False, True])
def test_a_runs_record_has_it_at_the_latest_at_its_end(is_early: bool) -> None:
    described = HostDescribed(0, "node-a", HAS)

    def answer(request: Request, ranks: Iterable[int]) -> None:
        if isinstance(request, DescribeHost) and not is_early:
            cluster.say(described)

    cluster = TestCluster(answer)
    cluster.warm = {}
    _, ranks = ready(cluster, None)  # type: ignore[arg-type]
    follower = ranks.sender.send("1", RANKS, CellOptions(), None, None)
    run = follower.run
    assert any(isinstance(request, RunCell) for request in cluster.sent)

    def topology() -> Any:
        return json.loads((run.folder.path / "run.json").read_text())["topology"]

    assert list(topology()["interfaces"]) == ([] if is_early else ["node-a"])
    cluster.say(described)
    for rank in RANKS:
        cluster.say(finished(run, rank))
    follower.wait()
    assert topology()["gpus"] == [{"hosts": ["node-a"], "gpus": [], "no_gpus": "NVML finds none"}]
