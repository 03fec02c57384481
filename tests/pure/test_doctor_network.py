"""What the doctor says of the exchange between ranks, by figures that were recorded or made."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli.__main__ import main
from jupyter_ddl.doctor import network
from jupyter_ddl.doctor.network import counters, judgement, launching
from jupyter_ddl.doctor.network.judgement import judge
from jupyter_ddl.doctor.network.program import _pairs
from jupyter_ddl.doctor.network.table import as_table
from jupyter_ddl.errors import ClusterError
from jupyter_ddl.launch.profiles.start_options import StartOptions
from jupyter_ddl.protocol.network_figures import Allreduce, Figures, Host, Nic, Way

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GBIT = 1e9 / 8
ETH = Nic("eth0", "10.77.0.0/24")
NODEA = Host("nodea", (0, 1), 2, 0.0094, (ETH,))
NODEB = Host("nodeb", (2, 3), 2, 0.0092, (ETH,))
LOGIN = Host("login", (4,), 2, 0.0094, (ETH,))


def between(source: int, target: int, bytes_per_s: float = 21 * GBIT, latency_s: float = 10e-6) -> Way:
    return Way("between hosts", source, target, latency_s, bytes_per_s, {"eth0": 1.003}, False)


def within(source: int, target: int, bytes_per_s: float = 210 * GBIT) -> Way:
    return Way("within a host", source, target, 1.3e-6, bytes_per_s)


WITHIN = (within(0, 1), within(1, 0), within(2, 3), within(3, 2))
SUMS = (
    Allreduce("within a host", "nodea", 2, 14.9e-6, 2.59e-3),
    Allreduce("within a host", "nodeb", 2, 15.1e-6, 2.63e-3),
    Allreduce("between hosts", "", 3, 42.8e-6, 0.185),
    Allreduce("all", "", 5, 143e-6, 0.176),
)
# As measured on three hosts of one machine, where what nodeb sends is shaped to 400 Mbit/s.
SHAPED = Figures(
    "Open MPI v5.0.11",
    (NODEA, NODEB, LOGIN),
    (
        *WITHIN,
        between(0, 2),
        between(2, 0, 0.383 * GBIT),
        between(0, 4),
        between(4, 0),
        between(2, 4, 0.382 * GBIT),
        between(4, 2),
    ),
    SUMS,
)
PAIR = Figures("Open MPI v5.0.11", (NODEA, NODEB), (*WITHIN, between(0, 2), between(2, 0)), SUMS[:2])
BUSY = Figures(
    "Open MPI v5.0.11",
    (NODEA, replace(NODEB, work_s=0.012)),
    (
        *WITHIN[:2],
        within(2, 3, 90 * GBIT),
        within(3, 2, 95 * GBIT),
        between(0, 2, 9 * GBIT),
        between(2, 0, 17 * GBIT, 150e-6),
    ),
    SUMS[:2],
)


def said(figures: Figures) -> list[str]:
    checks = judge(figures)
    assert all(bool(check.remedy) == (check.status == "note") for check in checks)
    return [check.text for check in checks]


def on(figures: Figures, *changed: Way) -> Figures:
    """Return figures with other ones for some links."""
    ways = {(way.source, way.target): way for way in (*figures.ways, *changed)}
    return replace(figures, ways=tuple(ways.values()))


def with_hosts(figures: Figures, *hosts: Host) -> Figures:
    return replace(figures, hosts=hosts)


def test_a_shaped_link_is_named() -> None:
    assert said(SHAPED) == ["nodeb to every other host: 382 Mbit/s to 383 Mbit/s, others 21 Gbit/s"]
    (check,) = judge(SHAPED)
    assert [(link["source"], link["target"]) for link in check.facts["links"]] == [
        ("nodeb", "nodea"),
        ("nodeb", "login"),
    ]  # type: ignore[attr-defined]
    assert "tc qdisc" in check.remedy


def test_of_two_hosts_the_slow_direction_is_named() -> None:
    assert said(on(PAIR, between(2, 0, 0.4 * GBIT))) == ["nodeb to nodea: 400 Mbit/s, others 21 Gbit/s"]


def test_what_only_other_work_makes_slower_is_no_finding() -> None:
    assert said(PAIR) == said(BUSY) == ["4 ranks on 2 hosts: nothing is slow"]


def test_one_host_alone() -> None:
    alone = Figures("MPICH 5", (NODEA,), WITHIN[:2], SUMS[:1])
    assert said(alone) == ["2 ranks on 1 host: nothing is slow"]
    assert said(replace(alone, hosts=(replace(NODEA, ranks=(0,)),), ways=(), allreduces=())) == [
        "1 rank on 1 host: nothing is slow"
    ]


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        (
            on(PAIR, replace(within(0, 1), nics={"lo": 1.01})),
            "nodea: its ranks exchange by TCP (lo) and not by shared memory",
        ),
        (
            on(SHAPED, between(2, 0), between(2, 4), between(0, 4, latency_s=0.03), between(4, 0, latency_s=0.031)),
            "nodea to login: a latency of 30 ms, others 10 us",
        ),
        (
            with_hosts(PAIR, *(replace(host, nics=(replace(ETH, mbit_per_s=100_000),)) for host in (NODEA, NODEB))),
            "nodea: eth0 reaches 21 Gbit/s, its nominal speed is 100 Gbit/s",
        ),
        (
            with_hosts(
                PAIR,
                *(
                    replace(host, nics=(replace(ETH, mbit_per_s=25_000), Nic("ib0", "10.1.0.0/16", 200_000)))
                    for host in (NODEA, NODEB)
                ),
            ),
            "MPI uses eth0 (25 Gbit/s), and every host has ib0 (200 Gbit/s) too",
        ),
        (
            with_hosts(PAIR, *(replace(host, fabrics=("mlx5_0",)) for host in (NODEA, NODEB))),
            "MPI exchanges by TCP (eth0), though every host has mlx5_0",
        ),
        (
            on(PAIR, replace(between(0, 2), is_ipv6=True), replace(between(2, 0), is_ipv6=True)),
            "MPI connects over IPv6",
        ),
        (
            on(PAIR, replace(between(0, 2), is_ipv6=True)),
            "MPI connects over IPv6 between some hosts, and IPv4 between others",
        ),
        (
            with_hosts(PAIR, NODEA, replace(NODEB, work_s=0.0188)),
            "nodeb: the same work takes a core 2 of the time on other hosts",
        ),
        (
            on(PAIR, within(2, 3, 20 * GBIT), within(3, 2, 21 * GBIT)),
            "nodeb: its own ranks exchange 21 Gbit/s, other hosts' 210 Gbit/s",
        ),
    ],
)
def test_what_is_slow(figures: Figures, text: str) -> None:
    assert text in said(figures)


def test_a_sum_that_ignores_the_topology() -> None:
    *parts, whole = SUMS
    flat = replace(PAIR, allreduces=(*parts, replace(whole, large_s=0.55)))
    assert said(flat) == [
        "an allreduce of 8 MiB takes all ranks 550 ms, though within the hosts and then between them it takes 188 ms"
    ]
    assert said(replace(PAIR, allreduces=SUMS)) == ["4 ranks on 2 hosts: nothing is slow"]


def test_a_slower_end_is_no_fault_of_the_faster_one() -> None:
    fast, slow = (
        replace(host, nics=(replace(ETH, mbit_per_s=speed),)) for host, speed in ((NODEA, 100_000), (NODEB, 25_000))
    )
    assert said(with_hosts(PAIR, fast, slow)) == ["4 ranks on 2 hosts: nothing is slow"]


def test_a_fabric_that_is_used_is_no_finding() -> None:
    hosts = tuple(replace(host, fabrics=("mlx5_0",)) for host in (NODEA, NODEB))
    by_fabric = on(PAIR, *(replace(between(*pair), nics={}, is_ipv6=None) for pair in ((0, 2), (2, 0))))
    assert said(with_hosts(by_fabric, *hosts)) == ["4 ranks on 2 hosts: nothing is slow"]


def test_a_clock_that_is_off() -> None:
    texts = [check.text for check in judge(PAIR, {"nodea": -0.2, "nodeb": 120.0, "nodec": -3600.0})]
    assert texts == ["the clock of nodeb is 2 min 0 s ahead", "the clock of nodec is 1 h 00 min behind"]


def test_the_table() -> None:
    lines = as_table(SHAPED).splitlines()
    assert lines[0] == "5 ranks on 3 hosts (nodea, nodeb, login), Open MPI v5.0.11"
    assert lines[2].split() == ["level", "from", "to", "latency", "bandwidth", "by"]
    assert lines[3] == "within a host  rank 0 (nodea)  rank 1 (nodea)  1.3 us   210 Gbit/s  shared memory"
    assert "between hosts  rank 2 (nodeb)  rank 0 (nodea)  10 us    383 Mbit/s  eth0" in lines
    assert lines[-1] == "all            5      143 us            176 ms"
    assert judgement.time_text(2.5) == "2.5 s"


def hosts_of(count: int) -> list[Host]:
    return [replace(NODEA, name=f"node{number}", ranks=(2 * number, 2 * number + 1)) for number in range(count)]


@pytest.mark.parametrize(("hosts", "between_hosts"), [(1, 0), (2, 1), (6, 15), (7, 7), (64, 64)])
def test_many_hosts_are_measured_with_their_neighbours_only(hosts: int, between_hosts: int) -> None:
    levels = [level for level, _ in _pairs(hosts_of(hosts))]
    assert (levels.count("within a host"), levels.count("between hosts")) == (hosts, between_hosts)


def test_what_rank_0_prints_is_found_among_what_mpi_says() -> None:
    line = json.dumps(asdict(SHAPED))
    assert launching.figures_in(f"plm:ssh: Warning\n{line}\nend\n") == SHAPED
    with pytest.raises(ClusterError, match=r"must print what they measured\. Received: no\. Run `jupyter ddl doctor`"):
        launching.figures_in("{}\nno\n")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, r"must be able to exchange\. Received: they did not finish in time: OSError: no route"),
        (1, r"must be able to exchange\. Received: mpiexec's status 1: OSError: no route"),
    ],
)
def test_ranks_that_fail(monkeypatch: pytest.MonkeyPatch, status: int | None, text: str) -> None:
    monkeypatch.setattr(launching, "run_ranks", lambda *_: ("OSError: no route", status))
    with pytest.raises(ClusterError, match=text):
        launching.measured(StartOptions(n=2, local=True))


def test_the_report_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], *_: object) -> tuple[str, int]:
        commands.append(command)
        return json.dumps(asdict(PAIR)), 0

    monkeypatch.setattr(launching, "run_ranks", run)
    text = network.network_report(StartOptions(n=2, local=True))
    assert text.endswith("ok       Network        4 ranks on 2 hosts: nothing is slow")
    told = json.loads(network.network_report(StartOptions(n=2, local=True), in_json=True))
    assert told["ok"]
    assert told["figures"]["hosts"][1]["name"] == "nodeb"
    assert commands[0][-1] == "jupyter_ddl.doctor.network.program"
    assert commands[0][:2] == [sys.executable, commands[0][1]]


def test_options_of_the_network_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-H", "nodea"]) != 0
    assert "-H says where --network measures. Received: no --network. Add --network." in capsys.readouterr().err


def test_only_bytes_of_the_measurement_count() -> None:
    before, after = {"eth0": 100, "lo": 5}, {"eth0": 1_100, "lo": 15, "new": 3}
    assert counters.parts_of(before, after, 1_000) == {"eth0": 1.0}


def test_the_speed_of_a_virtual_interface_says_nothing(tmp_path: Path) -> None:
    net = tmp_path / "sys/class/net"
    for name, beside in (("eth0", "device"), ("bond0", "bonding"), ("eth0.7", "lower_eth0"), ("veth1", "queues")):
        (net / name / beside).mkdir(parents=True)
    assert [counters._is_virtual(name, tmp_path) for name in ("eth0", "bond0", "eth0.7", "veth1")] == [
        False,
        False,
        False,
        True,
    ]
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert counters.fabrics(tmp_path) == ("mlx5_0",)
    assert counters.fabrics(tmp_path / "none") == ()
    assert isinstance(counters.nics(), tuple)
    assert os.sep not in "".join(counters.own_addresses())
