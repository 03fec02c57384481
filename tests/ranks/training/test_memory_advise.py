"""`jupyter_ddl.memory.advise` on TensorFlow: needs that are known, a peak that is measured, and what a rank may use."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
from memory_checks import check_keras, check_peak, needs_on
from nvml import H200_BYTES, build_nvml, h200s

from jupyter_ddl.host.cores import memory_limit_bytes
from jupyter_ddl.memory.device import Capacity, capacity
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
from jupyter_ddl.protocol.memory_limit import MemoryLimit

if TYPE_CHECKING:
    from pathlib import Path

GIB = 2**30
SMALL = MemoryLimit(GIB // 2, "the profile small (memory_per_rank = 512MiB in site.toml)")
SHARE = GpuAllotment("the profile small (gpu_memory_per_rank = 20GiB in site.toml)", share_bytes=20 * GIB)
# A rank's own variables tell it; so do those that a script's rank has removed since.
READ = """
import json, os, sys
from dataclasses import asdict
from jupyter_ddl.memory.device import capacity
os.environ.pop("JUPYTER_DDL_SCRIPT", None)
print(json.dumps(asdict(capacity(2))))
"""


@pytest.mark.slow
def test_needs_of_a_keras_model_on_tensorflow() -> None:
    check_keras(needs_on("tensorflow"))


def test_a_training_on_tensorflow_holds_what_it_is_said_to_need() -> None:
    check_peak("tensorflow")


def settings(memory: MemoryLimit | None = None, allotment: GpuAllotment | None = None) -> str:
    return json.dumps({"memory": memory and asdict(memory), "allotment": allotment and asdict(allotment)})


def test_the_least_of_what_the_host_has_and_what_the_site_lets_a_rank_hold() -> None:
    limited = Capacity(SMALL.most_bytes, f"a rank may hold, by {SMALL.by}")
    assert capacity(2, {"JUPYTER_DDL_RANKS": settings(SMALL)}) == limited
    whole = Capacity(memory_limit_bytes() // 2, "each of this host's 2 ranks has")
    for variables in ({}, {"JUPYTER_DDL_RANKS": settings()}, {"JUPYTER_DDL_RANKS": settings(allotment=SHARE)}):
        assert capacity(2, variables) == whole
    roomy = replace(SMALL, most_bytes=2**50)
    assert capacity(2, {"JUPYTER_DDL_RANKS": settings(roomy)}) == whole


def on_a_gpu(tmp_path: Path, **variables: str) -> dict[str, Any]:
    gpu = h200s(1)[0]
    environment = build_nvml(tmp_path, [gpu]) | {"CUDA_VISIBLE_DEVICES": gpu.uuid} | variables
    child = subprocess.run([sys.executable, "-c", READ], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(child.stdout)
    return found


@pytest.mark.parametrize("variable", ["JUPYTER_DDL_RANKS", "JUPYTER_DDL_SCRIPT"])
def test_a_share_of_a_gpu_is_what_frameworks_may_allocate_of_it(tmp_path: Path, variable: str) -> None:
    """The host's limit is none of the GPU's."""
    assert on_a_gpu(tmp_path, **{variable: settings(SMALL, SHARE)}) == {
        "size_bytes": 19 * GIB,
        "what": f"a rank may allocate of its GPU, by {SHARE.by}",
        "is_gpu": True,
    }


def test_a_gpu_without_a_share_is_a_ranks_own(tmp_path: Path) -> None:
    own = GpuAllotment("the profile small (gpus = own in site.toml)")
    for given in (settings(SMALL), settings(allotment=own)):
        assert on_a_gpu(tmp_path, JUPYTER_DDL_RANKS=given) == {
            "size_bytes": H200_BYTES,
            "what": "this rank's GPU has",
            "is_gpu": True,
        }
