"""The network interfaces of this host, and how the doctor lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.doctor.surroundings import check_interfaces
from jupyter_ddl.host.interfaces import interfaces, is_infiniband, speed_of
from jupyter_ddl.protocol.host_topology import Interface

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("said", "speed"), [("25000\n", 25000), ("-1\n", None), ("", None)])
def test_a_speed_is_its_drivers(tmp_path: Path, said: str, speed: int | None) -> None:
    folder = tmp_path / "sys/class/net/ib0"
    folder.mkdir(parents=True)
    (folder / "speed").write_text(said)
    assert speed_of("ib0", tmp_path) == speed
    assert speed_of("eth9", tmp_path) is None


@pytest.mark.parametrize(("said", "expected"), [("32\n", True), ("1\n", False)])
def test_infiniband_is_what_linux_says_it_is(tmp_path: Path, said: str, expected: bool) -> None:
    folder = tmp_path / "sys/class/net/ib0"
    folder.mkdir(parents=True)
    (folder / "type").write_text(said)
    assert is_infiniband("ib0", tmp_path) is expected
    assert not is_infiniband("eth9", tmp_path)


def test_this_hosts_interfaces_are_without_loopback() -> None:
    assert all(one.address != "127.0.0.1" and one.name != "lo" for one in interfaces())


def test_the_doctor_lists_them() -> None:
    check = check_interfaces([Interface("ib0", "10.1.0.1", 100_000, True), Interface("veth", "10.2.0.1", None)])
    assert check.text == "ib0 10.1.0.1 (InfiniBand, 100,000 Mbit/s), veth 10.2.0.1"
    assert check_interfaces([]).text == "none but loopback"
