"""Rates of a host's links, from the counters that Linux has of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.host.link_rates import HostLinks, Rates
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.events import Event, MetricsSample

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "Inter-|   Receive                |  Transmit\n face |bytes    packets |bytes    packets\n"
RECEIVED, SENT = "network_received_bytes_per_s", "network_sent_bytes_per_s"


def counted(root: Path, **interfaces: tuple[int, int]) -> None:
    """Have Linux count bytes received and sent."""
    lines = [
        f"{name:>6}: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0" for name, (received, sent) in interfaces.items()
    ]
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    (root / "proc/net/dev").write_text(HEAD + "\n".join(lines) + "\n")


def test_devices_count_and_what_is_above_them_does_not(tmp_path: Path) -> None:
    (tmp_path / "sys/class/net/eth0/device").mkdir(parents=True)
    now = iter([0.0, 2.0, 3.0, 4.0])
    links = HostLinks(tmp_path, now.__next__)
    counted(tmp_path, lo=(0, 0), eth0=(0, 100), docker0=(0, 0))
    assert links.read() == {}
    counted(tmp_path, lo=(10**9, 10**9), eth0=(4000, 1100), docker0=(4000, 1000))
    assert links.read() == {RECEIVED: 2000.0, SENT: 500.0}
    # A driver that was loaded again counts from 0.
    counted(tmp_path, eth0=(10, 2100))
    assert links.read() == {SENT: 1000.0}
    counted(tmp_path, eth0=(20, 2100))
    assert links.read() == {RECEIVED: 10.0, SENT: 0.0}


def test_in_a_container_all_but_loopback_count(tmp_path: Path) -> None:
    links = HostLinks(tmp_path, iter([0.0, 1.0]).__next__)
    counted(tmp_path, lo=(0, 0), eth0=(0, 0), eth1=(0, 0))
    links.read()
    counted(tmp_path, lo=(7, 7), eth0=(1, 2), eth1=(3, 4))
    assert links.read() == {RECEIVED: 4.0, SENT: 6.0}


def test_infiniband_counts_in_words_of_four_octets(tmp_path: Path) -> None:
    ports = [tmp_path / f"sys/class/infiniband/mlx5_{number}/ports/1/counters" for number in range(2)]
    for port in ports:
        port.mkdir(parents=True)
        (port / "port_rcv_data").write_text("0\n")
    (ports[0] / "port_xmit_data").write_text("0\n")
    links = HostLinks(tmp_path, iter([0.0, 1.0]).__next__)
    links.read()
    for port in ports:
        (port / "port_rcv_data").write_text("1000\n")
    (ports[0] / "port_xmit_data").write_text("500\n")
    assert links.read() == {"fabric_received_bytes_per_s": 8000.0, "fabric_sent_bytes_per_s": 2000.0}


def test_a_host_that_does_not_count_has_no_rates(tmp_path: Path) -> None:
    assert HostLinks(tmp_path).read() == {}
    rates = Rates(lambda: 1.0)
    rates.take({"a": 1})
    assert rates.take({"a": 2}) == {}


def test_the_first_rank_on_a_host_reports_them(tmp_path: Path) -> None:
    counted(tmp_path, eth0=(0, 0))
    now = iter(range(1000))
    links = HostLinks(tmp_path, lambda: float(next(now)))
    links.read()
    counted(tmp_path, eth0=(1000, 0))
    events: list[object] = []
    with rank_state.replaced(rank_state.RankState()) as state:
        sample = Sampler(0, state.meter, events.append, links)._sample(None)
    assert (sample.network_received_bytes_per_s, sample.network_sent_bytes_per_s) == (1000.0, 0.0)
    assert (sample.fabric_sent_bytes_per_s, sample.nvlink_sent_bytes_per_s) == (None, None)


def test_runs_of_before_have_none() -> None:
    old = {"type": "metrics", "run": "r", "rank": 0, "at_s": 1.0, "cpu_pct": 5.0, "rss_bytes": 7, "gpu_watts": 300.0}
    sample = decode(json.dumps(old), Event)
    assert isinstance(sample, MetricsSample)
    assert (sample.gpu_watts, sample.network_sent_bytes_per_s) == (300.0, None)
