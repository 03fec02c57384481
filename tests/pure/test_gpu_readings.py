"""What a rank reads of its own GPU, through the real nvidia-ml-py and a stand-in library."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from nvml import H200_BYTES, RESERVED_BYTES, FakeGpu, build_nvml, h200s

if TYPE_CHECKING:
    from pathlib import Path

READ = """
import json
from dataclasses import asdict
from jupyter_ddl.engine.gpu import Gpu
gpu = Gpu.of_this_rank()
print(json.dumps(None if gpu is None else asdict(gpu.read())))
"""
NOTHING = {
    "gpu_pct": None,
    "gpu_memory_used_bytes": None,
    "gpu_memory_total_bytes": None,
    "gpu_watts": None,
    "gpu_celsius": None,
    "nvlink_received_bytes_per_s": None,
    "nvlink_sent_bytes_per_s": None,
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Eight devices: the second fails, the third is in MIG mode, each of the others is as busy as its index says."""
    gpus = [replace(gpu, memory_used_bytes=index * 2**30, busy_pct=10 * index) for index, gpu in enumerate(h200s(8))]
    gpus[1] = FakeGpu("GPU-lost", memory_total_bytes=None, busy_pct=None)
    gpus[2] = FakeGpu("GPU-parted", migs=("MIG-one", "MIG-two"))
    return build_nvml(tmp_path, gpus) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def reading(environment: dict[str, str], device: str) -> Any:
    child = subprocess.run(
        [sys.executable, "-c", READ],
        env={**environment, "CUDA_VISIBLE_DEVICES": device},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(child.stdout)


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_rank_reads_its_own_device(environment: dict[str, str], index: int) -> None:
    expected = NOTHING | {
        "gpu_pct": 10.0 * index,
        "gpu_memory_used_bytes": index * 2**30,
        "gpu_memory_total_bytes": H200_BYTES,
        "gpu_watts": 70.5,
        "gpu_celsius": 41.0,
    }
    assert reading(environment, str(index)) == expected
    assert reading(environment, h200s(8)[index].uuid) == expected


def test_a_driver_that_does_not_tell_what_it_keeps_counts_it_as_used(tmp_path: Path) -> None:
    gpus = [replace(gpu, memory_used_bytes=2**30) for gpu in h200s(1)]
    environment = build_nvml(tmp_path, gpus, knows_reserved=False) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert reading(environment, "0")["gpu_memory_used_bytes"] == 2**30 + RESERVED_BYTES


def test_nvlinks_have_a_rate_from_the_second_reading_on(tmp_path: Path) -> None:
    """The stand-in counts a GiB a link at each reading; no GPU with NVLinks was at hand."""
    linked = FakeGpu("GPU-linked", nvlinks=(1, 1, None))
    code = READ.replace("print", "gpu._rates._clock = iter([1.0, 3.0]).__next__\nfirst = gpu.read()\nprint")
    child = subprocess.run(
        [sys.executable, "-c", code.replace("asdict(gpu.read())", "[asdict(first), asdict(gpu.read())]")],
        env=build_nvml(tmp_path, [linked]) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    rates = [(one["nvlink_received_bytes_per_s"], one["nvlink_sent_bytes_per_s"]) for one in json.loads(child.stdout)]
    assert rates == [(None, None), (2**30, 2**29)]


def test_a_device_that_fails_tells_nothing_and_raises_nothing(environment: dict[str, str]) -> None:
    assert reading(environment, "1") == NOTHING


def test_a_mig_device_has_memory_of_its_own(environment: dict[str, str]) -> None:
    assert reading(environment, "MIG-two") == NOTHING | {
        "gpu_memory_used_bytes": 2**30,
        "gpu_memory_total_bytes": 18 * 2**30,
    }


@pytest.mark.parametrize("device", ["", "9", "GPU-unknown"])
def test_without_a_device_there_is_no_reading(environment: dict[str, str], device: str) -> None:
    assert reading(environment, device) is None


def test_an_index_of_cudas_own_order_is_not_nvmls(environment: dict[str, str]) -> None:
    assert reading(environment | {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "0") is None


def test_without_a_driver_there_is_no_reading(tmp_path: Path) -> None:
    assert reading(build_nvml(tmp_path, [], init_result=9), "0") is None
