"""Runs memory_needs.py, and checks what it found of a Keras model on any backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = Path(__file__).with_name("memory_needs.py")
_WIDTH, _BATCH = 32, 2048


def needs_on(backend: str) -> dict[str, Any]:
    environment = os.environ | {"KERAS_BACKEND": backend}
    command = [sys.executable, str(_PROGRAM)]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert child.returncode == 0, child.stderr
    found: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return found


def check_keras(answers: dict[str, Any]) -> None:
    found = answers["keras"]
    need = found["need"]
    block = _WIDTH * 8 * _WIDTH + 8 * _WIDTH + 8 * _WIDTH * _WIDTH + _WIDTH
    trained = (2 * block + 2 * _WIDTH + _WIDTH + 1) * 4
    assert need["gradients_bytes"] == trained
    assert need["optimizer_bytes"] == 2 * trained
    assert trained < need["weights_bytes"] < trained + 1000, "the moving averages, and the state of a seed"
    assert (found["momentum_bytes"], found["plain_bytes"]) == (trained, 0)
    # Each block keeps at least what GELU takes and gives.
    least = 2 * 2 * 8 * _WIDTH * 4 * _BATCH
    assert least * 0.9 < need["activations_bytes"] < 5 * least
    assert found["of_twice_the_batch"] == pytest.approx(2 * need["activations_bytes"], rel=0.05)
    assert found["with_targets"] == pytest.approx(need["activations_bytes"], rel=0.2)
    saved = {remedy["name"]: remedy["saved_bytes"] for remedy in found["remedies"]}
    assert saved["remat"] > 0.6 * need["activations_bytes"], "the blocks are most of it"
    assert 0.05 * need["activations_bytes"] < saved["mixed"] < 0.7 * need["activations_bytes"]
    assert all(remedy["time"] > 0 for remedy in found["remedies"] if not remedy["name"].startswith("shard"))
    by_words = answers["backend"] != "jax"
    assert all((remedy["option"] == remedy["name"]) == by_words for remedy in found["remedies"])
    # Half of Adam's two moments, but for this rank's half of the weights; on JAX half of all.
    if by_words:
        assert saved["shard-optimizer"] == pytest.approx(trained / 2, abs=8)
    else:
        assert saved["shard-all"] == pytest.approx((need["weights_bytes"] + 3 * trained) / 2, abs=8)
    assert found["is_unchanged"]
    assert found["policies"] == ["float32"]
    assert all(found["modes"])
    assert [line.partition(".")[0] for line in answers["refused"]] == [
        "advise measures a model that has its weights",
        "A batch must have samples",
        "A batch is a number of samples, or arrays whose rows are samples",
        "advise takes a Keras model or a torch",
    ]
