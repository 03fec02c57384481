"""The short form of `make soak`: random faults, of which none hangs, none is told wrongly and nothing grows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.soak import soak

pytestmark = pytest.mark.mpi


def test_random_faults() -> None:
    result = soak(cells=10, seconds=300.0, seed=10, bare=True)
    assert result["problems"] == []
    assert result["holds"]
