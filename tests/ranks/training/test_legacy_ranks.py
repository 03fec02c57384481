"""Old spellings, Horovod and several ranks together: a whole program of 2018 trains in sync."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks.mpirun import run_program

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.mark.parametrize("n", [1, 2])
def test_a_program_of_2018_trains_in_sync(n: int, tmp_path: Path) -> None:
    ranks = run_program(Path(__file__).with_name("legacy_program.py"), n, tmp_path, timeout_s=280)
    for found in ranks:
        assert found["checksum"] == ranks[0]["checksum"]
        assert found["steps"] == 4 * (12 // n)
        assert len(found["acc"]) == 4
        assert found["acc"] == ranks[0]["acc"], "averaged over the ranks"
        assert found["score"] == ranks[0]["score"]
        assert (found["lr"], found["decay"], found["eager"]) == (0.5, 1e-3, True)
        wanted = {"lr", "decay", "ConfigProto", "Session", "set_session", "fit_generator", "workers", "acc"}
        assert wanted - set(found["said"]) <= {"workers"}
        assert found["averages"] == [(n - 1) / 2, n * (n - 1) / 2] * 2
        assert found["broadcast"] == [0.0, 0.5]
    saved = sorted(path.name for path in tmp_path.glob("*.h5"))
    assert [name.split("-")[1] for name in saved] == ["2", "4"]
