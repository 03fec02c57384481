"""Runs memory_needs.py and memory_peaks.py, and checks what they found of a Keras model on any backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_NEEDS = Path(__file__).with_name("memory_needs.py")
_MALLOC = "MALLOC_MMAP_THRESHOLD_"
_WIDTH, _BATCH = 32, 2048


def needs_on(backend: str) -> dict[str, Any]:
    environment = os.environ | {"KERAS_BACKEND": backend}
    environment.pop(_MALLOC, None)
    return _printed([str(_NEEDS)], environment)


def check_peak(backend: str, model: str = "keras") -> None:
    """Check that a training holds at most what `advise` says and a quarter more, and nine tenths of it at least.

    In all, and beyond what the process holds before. malloc gives large blocks back, as docs/memory.md says; the other
    libraries have allocators of their own.

    Args:
        backend: of Keras.
        model: "keras", or "torch" for a loop of PyTorch's.
    """
    found = _printed(["-m", "tests.memory_peaks", model], os.environ | {"KERAS_BACKEND": backend, _MALLOC: str(2**20)})
    assert 0.9 < found["peak_bytes"] / found["need_bytes"] < 1.25, found
    assert 0.9 < (found["peak_bytes"] - found["before_bytes"]) / found["of_training_bytes"] < 1.25, found
    assert found["notes"] == []


def _printed(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    child = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
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
    is_of_jax = answers["backend"] == "jax"
    by_hand = {name for name in saved if is_of_jax and name.startswith("accumulate=")}
    assert {remedy["name"] for remedy in found["remedies"] if remedy["option"] != remedy["name"]} == by_hand
    # Half of Adam's two moments, but for this rank's half of the weights; on JAX half of all.
    if is_of_jax:
        assert saved["shard-all"] == pytest.approx((need["weights_bytes"] + 3 * trained) / 2, abs=8)
    else:
        assert saved["shard-optimizer"] == pytest.approx(trained / 2, abs=8)
    assert found["is_unchanged"]
    assert found["policies"] == ["float32"]
    assert all(found["modes"])
    assert [line.partition(".")[0] for line in answers["refused"]] == [
        "advise measures a model that has its weights",
        "A batch must have samples",
        "A batch is a number of samples, or arrays whose rows are samples",
        "advise takes a Keras model or a torch",
    ]
