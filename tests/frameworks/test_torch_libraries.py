"""Accelerate, Lightning, Transformers and DeepSpeed train on ranks as they are documented, and a cell runs again."""

from __future__ import annotations

import ast
import importlib.util

import pytest
from frameworks.library_programs import DATA, DEEPSPEED, PROGRAMS

import jupyter_ddl

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

FOUND = "\n(size, steps, sum(one.double().sum().item() for one in trained.parameters()))"


@pytest.mark.parametrize("library", PROGRAMS)
def test_a_program_trains_one_model_on_all_ranks_and_runs_again(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    with jupyter_ddl.start(n=2, name=f"with-{library}", framework="torch") as session:
        for _ in range(2):
            result = session.run(DATA + PROGRAMS[library] + FOUND, timeout_s=200)
            found = [ast.literal_eval(result.ranks[rank].value or "") for rank in range(2)]
            assert found[0][:2] == (2, 48)
            assert found[0] == found[1]


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
def test_deepspeed_trains_alike_with_each_stage_and_no_part_is_taken_for_other_weights() -> None:
    trained = []
    with jupyter_ddl.start(n=2, name="with-deepspeed", framework="torch") as session:
        for stage in (0, 1, 2, 3, 3):
            result = session.run(DATA + DEEPSPEED.replace("STAGE", str(stage)) + FOUND, timeout_s=200)
            found = [ast.literal_eval(result.ranks[rank].value or "") for rank in range(2)]
            assert found[0][:2] == (2, 48)
            assert found[0] == found[1]
            assert not any("All ranks must hold" in rank.stderr for rank in result.ranks.values())
            trained.append(found[0][2])
    assert trained == pytest.approx([trained[0]] * 5, abs=1e-6)
