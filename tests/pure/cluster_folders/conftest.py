"""A runtime folder of their own, for the tests of this folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import paths

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/runtime")
        yield Path(made) / "runtime"
