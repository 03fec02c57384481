"""`jupyter_ddl.memory.advise` on PyTorch and JAX: needs that are known, and peaks that are measured."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from memory_checks import check_keras, check_peak, needs_on
from ranks.sizes import slow_but

BACKENDS = ("torch", "jax")
of = cache(needs_on)


@pytest.mark.parametrize("backend", slow_but({"torch"}, BACKENDS))
def test_needs_of_a_keras_model_on_torch_and_jax(backend: str) -> None:
    check_keras(of(backend))


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "model"), [("torch", "torch"), ("torch", "keras"), ("jax", "keras")])
def test_a_training_holds_what_it_is_said_to_need(backend: str, model: str) -> None:
    check_peak(backend, model)


def test_needs_of_a_module_of_torch() -> None:
    found: dict[str, Any] = of("torch")["torch"]
    weights = (32 * 100 + 100 + 100 + 1) * 4
    need = found["need"]
    assert (need["weights_bytes"], need["gradients_bytes"], need["optimizer_bytes"]) == (weights, weights, 2 * weights)
    # What GELU takes and what it gives, of 100 numbers a sample, and the output.
    assert need["activations_bytes"] == pytest.approx(2048 * (100 + 100 + 1) * 4, rel=0.05)
    assert not found["has_gradients"]
    (note,) = found["notes"]
    assert note.startswith("Not counted: blocks that PyTorch frees, and glibc keeps. Ranks that are started ")
    assert note.endswith("with --env MALLOC_MMAP_THRESHOLD_=1048576 give the large ones back.")
    assert found["remedies"][0]["name"].startswith("accumulate=")
    saved = {remedy["name"]: remedy["saved_bytes"] for remedy in found["remedies"]}
    assert saved["shard-all"] == 2 * weights, "half of weights, gradients and Adam's two moments"
    words = {remedy["name"]: remedy["option"] for remedy in found["remedies"]}
    # Of these two layers nothing is inside a part, which could be computed again.
    assert {name: word for name, word in words.items() if word} == {"shard-all": "shard-all", "mixed": "mixed"}


BLOCKS = """
import json, torch
from benchmarks.memory_loop_program import BLOCKS, INNER, LENGTH, WIDTH, Block
from jupyter_ddl.memory import advise
from torch.optim.optimizer import _global_optimizer_pre_hooks
model = torch.nn.Sequential(*(Block() for _ in range(BLOCKS)), torch.nn.Linear(WIDTH, 1))
found = advise(model, torch.randn(8, LENGTH, WIDTH), samples=64).as_dict()
stock = torch.nn.Module.__call__.__qualname__, len(_global_optimizer_pre_hooks)
print(json.dumps([found["need"]["activations_bytes"], found["remedies"], stock]))
"""


def test_parts_that_are_computed_again_are_tried() -> None:
    child = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, timeout=120, check=True)
    activations, remedies, stock = json.loads(child.stdout)
    saved = {remedy["name"]: remedy["saved_bytes"] / activations for remedy in remedies}
    # Of each block its input stays, 64 numbers of 64 + 2 * 1024 and the next one's.
    assert saved["remat"] == pytest.approx(1 - 64 / (2 * 64 + 2 * 1024), abs=0.05)
    assert 0.3 < saved["mixed"] < 0.6
    assert stock == ["Module._wrapped_call_impl", 0], "calls and steps are PyTorch's own again"
