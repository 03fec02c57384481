"""What the doctor says of PyTorch and JAX, and of TensorFlow where one of them is there instead."""

from __future__ import annotations

import importlib.util
from importlib import metadata

import pytest

from jupyter_ddl.doctor import frameworks
from jupyter_ddl.doctor.report import Check, is_well

MISSING = Check("TensorFlow", "problem", "no TensorFlow in /env", "Run: pip install tensorflow")


@pytest.fixture
def without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)


def test_installed_ones_have_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "torch":
            return "2.13.0"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert frameworks.installed_frameworks() == {"torch": "2.13.0"}
    assert frameworks.check_frameworks({"torch": "2.13.0"}) == [
        Check("PyTorch", "ok", "2.13.0", facts={"version": "2.13.0"})
    ]


@pytest.mark.usefixtures("without_tensorflow")
def test_what_is_missing_is_no_problem_where_ranks_train_with_another() -> None:
    spared = frameworks.spared(MISSING, "tensorflow", {"torch": "2.13.0", "jax": "0.10.2"})
    assert (spared.status, spared.text) == ("note", "not installed: ranks train with PyTorch and JAX")
    assert spared.remedy == MISSING.remedy
    assert is_well([spared])


@pytest.mark.usefixtures("without_tensorflow")
def test_with_no_framework_it_is_one() -> None:
    assert frameworks.spared(MISSING, "tensorflow", {}) is MISSING


def test_what_is_there_and_broken_is_one_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    assert frameworks.spared(MISSING, "tensorflow", {"torch": "2.13.0"}) is MISSING
