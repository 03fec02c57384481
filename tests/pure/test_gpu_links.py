"""How GPUs are joined, as the real nvidia-ml-py reads it from a stand-in NVML, and how that is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from nvml import NO_LEVEL, SWITCH, build_nvml, h200s

from jupyter_ddl.doctor.gpu_topology import check_gpu_topology, topology_here
from jupyter_ddl.host import description
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.host_topology import HostGpu, HostTopology, Interface
from jupyter_ddl.views.topology import legend_of, topology_text

if TYPE_CHECKING:
    from pathlib import Path

READ = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from jupyter_ddl.host.gpu_links import gpus_and_links
gpus, why = gpus_and_links(Path(sys.argv[1]))
print(json.dumps([[asdict(gpu) for gpu in gpus], why]))
"""
PIX, PXB, PHB, NODE = 10, 20, 30, 40
DRIVER_NOT_LOADED, LIBRARY_MISMATCH = 9, 18


def read(environment: dict[str, str], root: Path) -> tuple[list[HostGpu], str | None]:
    child = subprocess.run(
        [sys.executable, "-c", READ, root], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    gpus, why = json.loads(child.stdout)
    return [record_of(HostGpu, gpu) for gpu in gpus], why


def test_gpus_by_the_paths_that_nvidia_smi_names(tmp_path: Path) -> None:
    near = [replace(gpu, numa=at // 4, cores=(at // 4, at // 4 + 2)) for at, gpu in enumerate(h200s(6))]
    levels = {(0, 1): PIX, (2, 3): PXB, (0, 2): PHB, (1, 2): NODE, (0, 4): NO_LEVEL, (1, 4): 0}
    gpus, why = read(build_nvml(tmp_path, near, levels=levels), tmp_path)
    assert why is None
    assert [gpu.paths for gpu in gpus] == [
        ("X", "PIX", "PHB", "SYS", "?", "SYS"),
        ("PIX", "X", "NODE", "SYS", "PIX", "SYS"),
        ("PHB", "NODE", "X", "PXB", "SYS", "SYS"),
        ("SYS", "SYS", "PXB", "X", "SYS", "SYS"),
        ("?", "PIX", "SYS", "SYS", "X", "SYS"),
        ("SYS", "SYS", "SYS", "SYS", "SYS", "X"),
    ]
    assert [gpu.numa for gpu in gpus] == ["0"] * 4 + ["1"] * 2
    assert [gpu.cores for gpu in gpus] == ["0,2"] * 4 + ["1,3"] * 2
    assert [gpu.index for gpu in gpus] == list(range(6))
    assert gpus[3].pci_address == "00000000:a3:00.0"


def test_nvlinks_between_gpus_are_counted_but_those_that_are_not_in_use(tmp_path: Path) -> None:
    # Four GPUs in a ring: two links to one neighbour, one to the other.
    ends: list[tuple[int | None, ...]] = [(1, 1, 3), (0, None, 0, 2), (3, 3, 1), (2, 2, 0)]
    ring = [replace(gpu, nvlinks=to) for gpu, to in zip(h200s(4), ends, strict=True)]
    gpus, _ = read(build_nvml(tmp_path, ring, levels={(0, 2): PHB}), tmp_path)
    assert [gpu.paths for gpu in gpus] == [
        ("X", "NV2", "PHB", "NV1"),
        ("NV2", "X", "NV1", "SYS"),
        ("PHB", "NV1", "X", "NV2"),
        ("NV1", "SYS", "NV2", "X"),
    ]


def test_nvswitches_join_every_pair_with_the_links_of_the_one_that_has_fewer(tmp_path: Path) -> None:
    joined = [replace(gpu, nvlinks=(SWITCH,) * 18) for gpu in h200s(3)]
    joined[2] = replace(joined[2], nvlinks=(SWITCH,) * 17 + (None,))
    gpus, _ = read(build_nvml(tmp_path, joined), tmp_path)
    assert [gpu.paths for gpu in gpus] == [("X", "NV18", "NV17"), ("NV18", "X", "NV17"), ("NV17", "NV17", "X")]


def test_where_nvml_says_no_more_a_gpu_has_its_name(tmp_path: Path) -> None:
    (gpu,), why = read(build_nvml(tmp_path, h200s(1)), tmp_path)
    assert (gpu.name, gpu.paths, gpu.numa, gpu.cores, why) == ("NVIDIA H200", ("X",), "", "", None)


def test_without_gpus_the_reason_is_one_clause(tmp_path: Path) -> None:
    assert read(build_nvml(tmp_path, []), tmp_path) == ([], "NVML finds none")
    not_loaded = build_nvml(tmp_path, [], init_result=DRIVER_NOT_LOADED)
    assert read(not_loaded, tmp_path) == ([], "NVML is there, but no NVIDIA GPU on the PCI bus")
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    for environment in (not_loaded, build_nvml(tmp_path, h200s(1), init_result=LIBRARY_MISMATCH)):
        gpus, why = read(environment, tmp_path)
        assert gpus == []
        assert why is not None
        assert why.startswith("NVML, which knows the GPUs, fails: ")
        assert why.endswith(". `nvidia-smi` there says more")
    environment = {name: value for name, value in not_loaded.items() if name != "LD_LIBRARY_PATH"}
    (tmp_path / "nvml" / "libnvidia-ml.so.1").unlink()
    missing = "NVML, the library of NVIDIA's driver (libnvidia-ml.so.1), is not there"
    assert read(environment, tmp_path) == ([], missing)


def test_interfaces_that_cannot_be_read_end_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise PermissionError("no netlink here")

    monkeypatch.setattr(description, "interfaces", refused)
    monkeypatch.setattr(description, "gpus_and_links", lambda: ((), "NVML finds none"))
    assert description.describe_host() == HostTopology((), "NVML finds none", ())


IB, ETH = Interface("ib0", "10.1.0.1", 400_000, True), Interface("eth0", "10.0.0.1", None)
TWO = (
    HostGpu(0, "NVIDIA H200", "0:1", ("X", "NV18"), "0", "0-31"),
    HostGpu(1, "NVIDIA H200", "0:2", ("NV18", "X"), "1", "32-63"),
)


def test_hosts_are_shown_as_tables_and_those_alike_in_one() -> None:
    other = tuple(replace(gpu, pci_address="0:9") for gpu in TWO)
    found = {
        "nodea": HostTopology(TWO, None, (ETH, IB)),
        "nodeb": HostTopology(other, None, ()),
        "login": HostTopology((), "NVML finds none", (ETH,)),
        "gone": None,
    }
    assert topology_text(found) == (
        "nodea, nodeb: 2 GPUs (NVIDIA H200)\n"
        "      GPU0  GPU1  NUMA  cores\n"
        "GPU0  X     NV18  0     0-31\n"
        "GPU1  NV18  X     1     32-63\n"
        "\n"
        "login: no GPU: NVML finds none.\n"
        "\n"
        "gone: no rank there has answered.\n"
        "\n"
        "host   interface  address   speed           InfiniBand\n"
        "nodea  eth0       10.0.0.1  -               no\n"
        "nodea  ib0        10.1.0.1  400,000 Mbit/s  yes\n"
        "login  eth0       10.0.0.1  -               no\n"
        "\n"
        "nodeb: no network interface but loopback is known.\n"
        "\n"
        "NV18: 18 NVLinks."
    )


def test_the_legend_has_what_is_used_the_quickest_first() -> None:
    assert legend_of(["SYS", "X", "NV1", "NV12", "PIX", "?"]) == (
        "NV12: 12 NVLinks; NV1: 1 NVLink; PIX: one PCIe switch at most; SYS: the connection between NUMA nodes; "
        "?: NVML does not say"
    )
    assert legend_of(["X"]) == ""


def test_the_doctor_says_how_pairs_are_joined_and_what_is_near() -> None:
    check = check_gpu_topology(HostTopology(TWO, None, ()))
    assert (check.status, check.text) == (
        "ok",
        "every pair by NV18 (18 NVLinks); GPU 0 near NUMA 0, cores 0-31; GPU 1 near NUMA 1, cores 32-63",
    )
    json.dumps(dict(check.facts))
    mixed = (
        HostGpu(0, "A", "0:1", ("X", "SYS", "?")),
        HostGpu(1, "A", "0:2", ("SYS", "X", "NV2")),
        HostGpu(2, "A", "0:3", ("?", "NV2", "X")),
    )
    assert check_gpu_topology(HostTopology(mixed, None, ())).text == (
        "GPUs 1-2 by NV2 (2 NVLinks); GPUs 0-1 by SYS (the connection between NUMA nodes); "
        "GPUs 0-2 by ? (NVML does not say)"
    )
    assert check_gpu_topology(HostTopology((HostGpu(0, "A", "0:1", ("X",)),), None, ())).text == "1 GPU"
    assert check_gpu_topology(HostTopology((), "NVML finds none", ())).text == "no GPU: NVML finds none"
    unknown = check_gpu_topology("the driver has not answered for 60 s")
    assert (unknown.status, unknown.text) == ("note", "not known: the driver has not answered for 60 s")


def test_the_doctor_asks_a_process_of_its_own(tmp_path: Path) -> None:
    environment = build_nvml(tmp_path, [replace(gpu, nvlinks=(1 - at,) * 4) for at, gpu in enumerate(h200s(2))])
    found = topology_here(environment)
    assert isinstance(found, HostTopology)
    assert [gpu.paths for gpu in found.gpus] == [("X", "NV4"), ("NV4", "X")]
    assert topology_here(environment, 0.001) == "the driver has not answered for 0.001 s"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("raise ImportError('no such')", "ImportError: no such"),
        ("import os; os._exit(3)", "what asks NVML ended with status 3"),
        (
            "print('[]'); import os, sys; sys.stdout.flush(); os._exit(0)",
            "what asks NVML did not answer as it should: ",
        ),
    ],
)
def test_where_it_fails_the_doctor_says_why(tmp_path: Path, broken: str, why: str) -> None:
    (tmp_path / "psutil.py").write_text(broken)
    found = topology_here({"PYTHONPATH": str(tmp_path)})
    assert isinstance(found, str)
    assert found.startswith(why)
