"""A machine that has no data set of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a machine with no folder of data, an empty Keras cache and no network."""
    monkeypatch.delenv("JUPYTER_DDL_DATA", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
