"""The programs of tests/programs as scripts on four ranks: more ranks than cores on most machines that test."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from ranks.program_runs import PROGRAMS, TIMELINE, exchanges_in, run_as_script, write_mnist

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.mpi]

# That reads folders of images, which test_programs.py writes; and that whose groups are looked at below.
ELSEWHERE = {"image_folders_resume", "two_groups"}
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem not in ELSEWHERE)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with MNIST, or what this machine has in its place."""
    return write_mnist(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("name", NAMES)
def test_a_program_runs_to_its_end(name: str, tmp_path: Path, data: Path) -> None:
    # `fit` itself compares the ranks' weights, and raises where they differ.
    run_as_script(4, name, tmp_path, data)
    assert exchanges_in(tmp_path / TIMELINE) > 0


def test_each_group_of_ranks_trains_a_model_of_its_own(tmp_path: Path, data: Path) -> None:
    printed = run_as_script(4, "two_groups", tmp_path, data)
    found = re.findall(r"rank (\d), (\d) hidden layers: sum of weights (\S+)", printed)
    sums = {int(rank): (layers, total) for rank, layers, total in found}
    assert sums[0] == sums[2], printed
    assert sums[1] == sums[3]
    assert sums[0][0] != sums[1][0]
