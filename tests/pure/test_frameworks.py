"""Which framework ranks import before the first cell."""

from __future__ import annotations

import importlib.util

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol import frameworks


@pytest.mark.parametrize(
    ("modules", "chosen"),
    [
        ({"numpy"}, "auto"),
        ({"torch", "numpy"}, "torch"),
        ({"jax"}, "jax"),
        ({"tensorflow", "keras"}, "tensorflow"),
        ({"tensorflow", "torch"}, "auto"),
    ],
)
def test_what_the_notebook_has_imported_is_chosen(modules: set[str], chosen: str) -> None:
    assert frameworks.imported(modules) == chosen


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"tensorflow", "horovod", "torch", "jax"}, "tensorflow"),
        ({"tensorflow", "torch"}, "torch"),
        ({"tensorflow"}, "tensorflow"),
        ({"torch", "jax"}, "torch"),
        ({"jax"}, "jax"),
        (set(), "none"),
    ],
)
def test_else_what_is_installed(monkeypatch: pytest.MonkeyPatch, there: set[str], chosen: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name in there else None)
    assert frameworks.installed() == chosen


def test_another_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"Received: 'pytorch'\. Pass tensorflow, torch, jax, auto .* or none\."):
        frameworks.checked("pytorch")


@pytest.mark.parametrize(
    ("script", "uses"),
    [
        ("import torch", True),
        ("def main():\n    from torch.nn import Linear", True),
        ("import horovod.torch as hvd", True),
        ("import os, torch", True),
        ("from accelerate import Accelerator", True),
        ("import tensorflow as tf\nimport torch", False),
        ("import torch, tensorflow", False),
        ("import keras", False),
        ("# import torch", False),
        ("print('torch')", False),
    ],
)
def test_a_script_of_pytorchs_is_known_by_its_imports(script: str, uses: bool) -> None:
    assert frameworks.uses_torch(script) is uses
