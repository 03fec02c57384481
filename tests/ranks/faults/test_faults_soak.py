"""The short form of `make soak`: random faults, of which none hangs, none is told wrongly and nothing grows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.soak import soak

pytestmark = pytest.mark.mpi


# tests/pure/test_rebuild_simulated.py has 150 of them on simulated ranks.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cells", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_random_faults(cells: int) -> None:
    result = soak(cells, seconds=300.0, seed=10, bare=True)
    assert result["problems"] == []
    assert result["holds"]
