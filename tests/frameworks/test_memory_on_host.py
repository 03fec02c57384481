"""Activations and an optimizer's state of PyTorch's in host memory: the training is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_training_with_activations_and_state_on_the_host_is_the_same() -> None:
    program = Path(__file__).with_name("host_memory_program.py")
    child = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert found["farthest"] == 0.0
    # What GELU takes and gives, and the batch itself; no weight.
    assert found["copied"] == [256 * 64, 256 * 512]
    assert found["refused"] == [
        (
            "state_on_host takes an optimizer of PyTorch's. Received: builtins.int. Pass e.g. "
            "torch.optim.AdamW(model.parameters())."
        ),
        "A size is not below 0. Received: least_bytes=-1. Pass e.g. 2**20.",
    ]
