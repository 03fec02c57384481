"""A share of a GPU's memory, with the real PyTorch: it is set before CUDA's first use. CUDA itself is not here."""

from __future__ import annotations

import subprocess
import sys

SHARE = """
from jupyter_ddl.engine import gpu_share
from jupyter_ddl.host.topology import Gpu
gpu_share.list_gpus = lambda: (Gpu(0, "GPU-0a", "NVIDIA H200", 141 * 2**30, mig=False),)
gpu_share.keep_within(48 * 2**30, "0")
import torch
given = []
torch.cuda.set_per_process_memory_fraction = given.append
calls = [call for call, _ in torch.cuda._queued_calls if call.__module__.startswith("jupyter_ddl")]
assert not given
for call in calls:
    call()
print(len(calls), round(given[0] * 141, 6))
"""


def test_the_fraction_is_set_when_cuda_begins() -> None:
    done = subprocess.run([sys.executable, "-c", SHARE], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "1 47.0\n"
