"""What is told of CUDA's errors, with a stand-in NVML: whose the memory is, and that a process is at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from nvml import build_nvml, h200s

from jupyter_ddl.engine import advice, gpu_errors
from jupyter_ddl.host.topology import ComputeProcess

if TYPE_CHECKING:
    from pathlib import Path

TOLD = """
import os
from jupyter_ddl.engine import gpu_errors
class OutOfMemoryError(RuntimeError): pass
print(gpu_errors.advice(OutOfMemoryError("CUDA out of memory"), "CUDA out of memory"))
"""


class AcceleratorError(RuntimeError):
    """As PyTorch names it."""


def told(environment: dict[str, str]) -> str:
    child = subprocess.run([sys.executable, "-c", TOLD], env=environment, capture_output=True, text=True, check=True)
    return child.stdout.strip()


def test_who_holds_the_memory_is_told(tmp_path: Path) -> None:
    gpu = replace(h200s(1)[0], memory_used_bytes=100 * 2**30)
    assert told(build_nvml(tmp_path, [gpu]) | {"CUDA_VISIBLE_DEVICES": "0"}) == (
        "GPU 0 has 141 GiB, of which 100 GiB are in use. A smaller batch, or a variable less, may fit."
    )


def test_without_nvml_nothing_is_added(tmp_path: Path) -> None:
    assert told(build_nvml(tmp_path, [], init_result=9) | {"CUDA_VISIBLE_DEVICES": "0"}) == "None"


def test_shares_of_memory_are_told_where_the_driver_knows_this_process() -> None:
    own, other = ComputeProcess("0", os.getpid(), 3 * 2**30), ComputeProcess("0", 1, None)
    assert gpu_errors._shares([own]) == ": 3 GiB by this rank"
    assert gpu_errors._shares([other, own]) == ": 3 GiB by this rank, by 1 other process the rest"
    assert gpu_errors._shares([other]) == ""


@pytest.mark.parametrize("what", ["device-side assert triggered", "an illegal memory access was encountered"])
def test_a_process_that_cuda_refuses_is_to_be_replaced(what: str) -> None:
    found = advice.of(AcceleratorError(f"CUDA error: {what}\nCompile with TORCH_USE_CUDA_DSA"))
    assert found is not None
    assert "%ddl restart gives new ranks" in found


def test_other_errors_get_no_advice() -> None:
    assert advice.of(RuntimeError("device-side assert triggered")) is None
    assert advice.of(AcceleratorError("CUDA error: invalid configuration argument")) is None
