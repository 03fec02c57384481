"""Which framework ranks import before the first cell."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

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


def test_one_that_is_not_installed_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(InvalidInput) as caught:
        frameworks.check_installed("torch")
    assert str(caught.value) == (
        f"--framework torch takes the module torch. Received: {sys.executable} without it. "
        f"Run: {sys.executable} -m pip install 'torch>=2.7'"
    )


def test_one_that_is_installed_or_imported_is_taken_and_so_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "jax" else None)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    for choice in ("jax", "torch", frameworks.AUTO, frameworks.NONE):
        frameworks.check_installed(choice)


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
