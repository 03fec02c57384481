"""GPUs as the real nvidia-ml-py tells them, over a stand-in libnvidia-ml.so.1."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from nvml import H200_BYTES, FakeGpu, build_nvml, h200s

from jupyter_ddl.host.topology import Gpu, default_rank_count, find_gpu, visible_gpus

if TYPE_CHECKING:
    from pathlib import Path

DRIVER_NOT_LOADED = 9
LIBRARY_MISMATCH = 18
LIST = """
import json, sys
from pathlib import Path
from jupyter_ddl.host.topology import list_gpus
from jupyter_ddl.errors import ClusterError
from dataclasses import astuple
try:
    print(json.dumps([astuple(gpu) for gpu in list_gpus(Path(sys.argv[1]))]))
except ClusterError as error:
    print(json.dumps(str(error)))
"""


def list_in_child(environment: dict[str, str], root: Path) -> object:
    child = subprocess.run(
        [sys.executable, "-c", LIST, root], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(child.stdout)


def test_whole_gpus(tmp_path: Path) -> None:
    environment = build_nvml(tmp_path, [*h200s(2), FakeGpu("GPU-feed", "NVIDIA GB10", memory_total_bytes=None)])
    assert list_in_child(environment, tmp_path) == [
        [0, "GPU-0aaaaaaa-0000-0000-0000-000000000000", "NVIDIA H200", H200_BYTES, False],
        [1, "GPU-1aaaaaaa-0000-0000-0000-000000000000", "NVIDIA H200", H200_BYTES, False],
        [2, "GPU-feed", "NVIDIA GB10", 0, False],
    ]


def test_mig_devices_in_place_of_their_gpu(tmp_path: Path) -> None:
    environment = build_nvml(tmp_path, [*h200s(1), FakeGpu("GPU-b", migs=("MIG-1", "", "MIG-2"))])
    assert list_in_child(environment, tmp_path) == [
        [0, "GPU-0aaaaaaa-0000-0000-0000-000000000000", "NVIDIA H200", H200_BYTES, False],
        [1, "MIG-1", "NVIDIA H200 MIG 1g.18gb", 18 * 2**30, True],
        [1, "MIG-2", "NVIDIA H200 MIG 1g.18gb", 18 * 2**30, True],
    ]


def test_a_driver_that_is_not_loaded(tmp_path: Path) -> None:
    environment = build_nvml(tmp_path, [], init_result=DRIVER_NOT_LOADED)
    assert list_in_child(environment, tmp_path) == []
    # With a GPU on the bus it is a fault.
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    assert list_in_child(environment, tmp_path) == []
    (device / "class").write_text("0x030200\n")
    assert "NVML, which knows the GPUs of this host, must work." in str(list_in_child(environment, tmp_path))


@pytest.mark.parametrize("fault", [{"init_result": LIBRARY_MISMATCH}, {"count_result": 15}])
def test_an_nvml_that_fails(tmp_path: Path, fault: dict[str, int]) -> None:
    text = str(list_in_child(build_nvml(tmp_path, h200s(1), **fault), tmp_path))
    assert text.startswith("NVML, which knows the GPUs of this host, must work. Received: ")
    assert text.endswith(
        "Run `nvidia-smi`, which says the same, and mend the driver; or pass --gpus none to use the cores."
    )


def test_importing_loads_no_nvml() -> None:
    code = "import sys, jupyter_ddl.cluster.spec, jupyter_ddl.engine.devices; sys.exit('pynvml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def gpu(index: int, uuid: str, *, mig: bool = False) -> Gpu:
    return Gpu(index, uuid, "NVIDIA H200", H200_BYTES, mig)


GPUS = (
    gpu(0, "GPU-aa11"),
    gpu(1, "GPU-aa22"),
    gpu(2, "GPU-bb33"),
    gpu(3, "MIG-c1", mig=True),
    gpu(3, "MIG-c2", mig=True),
)


@pytest.mark.parametrize(
    ("setting", "devices"),
    [
        (None, ("0", "1", "2", "MIG-c1", "MIG-c2")),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("2,0", ("2", "0")),
        (" 1 , 2 ", ("1", "2")),
        ("0,-1,2", ("0",)),
        ("0,7,2", ("0",)),
        ("0,0", ("0",)),
        ("GPU-bb33,GPU-aa2", ("2", "1")),
        ("GPU-bb33,GPU-aa,2", ("2",)),
        ("GPU-", ()),
        ("MIG-c2,MIG-c1", ("MIG-c2", "MIG-c1")),
        ("3", ("MIG-c1",)),
    ],
)
def test_visible_gpus(monkeypatch: pytest.MonkeyPatch, setting: str | None, devices: tuple[str, ...]) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert visible_gpus(GPUS) == devices


def test_visible_gpus_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert visible_gpus(()) == ()


def test_a_mig_device_in_the_older_form() -> None:
    old = gpu(0, "MIG-GPU-aa11/1/0", mig=True)
    assert find_gpu("MIG-GPU-aa11/1/0", (old,)) is old
    assert find_gpu("MIG-GPU-aa11/2/0", (old,)) is None


@pytest.mark.parametrize(("gpus", "cores", "ranks"), [(4, 64, 4), (1, 64, 1), (0, 2, 2), (0, 1, 2), (0, 16, 8)])
def test_default_rank_count(gpus: int, cores: int, ranks: int) -> None:
    assert default_rank_count(gpus, cores) == ranks
