"""`jupyter_ddl.memory.advise` on PyTorch and JAX: needs that are known."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from memory_checks import check_keras, needs_on

BACKENDS = ("torch", "jax")
of = cache(needs_on)


@pytest.mark.parametrize("backend", BACKENDS)
def test_needs_of_a_keras_model_on_torch_and_jax(backend: str) -> None:
    check_keras(of(backend))


def test_needs_of_a_module_of_torch() -> None:
    found: dict[str, Any] = of("torch")["torch"]
    weights = (32 * 100 + 100 + 100 + 1) * 4
    need = found["need"]
    assert (need["weights_bytes"], need["gradients_bytes"], need["optimizer_bytes"]) == (weights, weights, 2 * weights)
    # What GELU takes and what it gives, of 100 numbers a sample, and the output.
    assert need["activations_bytes"] == pytest.approx(2048 * (100 + 100 + 1) * 4, rel=0.05)
    assert not found["has_gradients"]
    assert found["remedies"][0]["name"].startswith("accumulate=")
    saved = {remedy["name"]: remedy["saved_bytes"] for remedy in found["remedies"]}
    assert saved["shard-all"] == 2 * weights, "half of weights, gradients and Adam's two moments"
    words = {remedy["name"]: remedy["option"] for remedy in found["remedies"]}
    assert words.pop("shard-all") == "shard-all"
    assert set(words.values()) == {""}
