"""The short form of the fuzzer: random cells of sabotage, each of which ends, is told rightly, and harms no other."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.fuzz import fuzz
from benchmarks.sabotage import ENDINGS, SABOTAGE, program

pytestmark = pytest.mark.mpi

SEED = 15


@pytest.mark.timeout(600)
@pytest.mark.parametrize("programs", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_random_cells_of_sabotage(programs: int) -> None:
    result = fuzz(programs, seconds=300.0, seed=SEED, quick=True)
    assert result["problems"] == []
    assert result["holds"]


def test_a_program_is_the_same_again_from_its_seed_and_number_and_all_pieces_come() -> None:
    def programs() -> list[str]:
        return [program(each, 2, random.Random(f"{SEED} {each}"), quick=False).code for each in range(300)]

    assert programs() == programs()
    drawn = "\n".join(programs())
    assert all(piece.code.replace("{victim}", "1") in drawn for piece in SABOTAGE.values() if "{" not in piece.code)
    for name, ending in ENDINGS.items():
        assert any(ending.code.replace("{victim}", victim) in drawn for victim in "01"), name
