"""Accelerate, Lightning and Transformers train on the ranks as they are documented, and a cell with them runs again."""

from __future__ import annotations

import ast
import importlib.util

import pytest
from frameworks.library_programs import DATA, PROGRAMS

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
