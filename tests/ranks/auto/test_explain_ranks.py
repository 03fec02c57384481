"""`--explain` on real ranks: the program that it writes out comes to what `--auto` comes to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ranks.auto.explain_cases import CASES
from ranks.mpirun import run_program

from jupyter_ddl.explain import explain

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("explain_program.py")
# float32: the same sums in another order, over some tens of steps.
TOLERANCE = 1e-5
TIMEOUT_S = 240.0


# `make test` has time for some of them: each is trained twice.
FIRST = list(CASES)[:: len(CASES) - 1]
JOBS = [
    pytest.param((2, FIRST), id="2"),
    *(pytest.param((n, list(CASES)), id=f"{n}-all", marks=pytest.mark.slow) for n in (2, 4)),
]


@pytest.fixture(scope="module", params=JOBS)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    n, names = request.param
    folder = tmp_path_factory.mktemp("explain")
    (folder / "cases.json").write_text(json.dumps(names))
    found = run_program(PROGRAM, n, folder, timeout_s=TIMEOUT_S)
    for answer in found:
        assert "found" in answer["cases"], answer["cases"]["raised"]
    return [answer["cases"]["found"] for answer in found]


def test_the_same_weights_and_results(answers: list[dict[str, Any]]) -> None:
    for rank in answers:
        for name, found in rank.items():
            assert found["moved"] > 1e-3, f"{name}: the weights must have been trained at all"
            assert found["difference"] < TOLERANCE, name
            auto, explicit = found["results"]
            assert explicit == pytest.approx(auto, rel=1e-4, abs=1e-6), name


def test_the_plan_is_the_one_that_auto_tells(answers: list[dict[str, Any]]) -> None:
    """What the explanation says in numbers is what rank 0 says when it runs."""
    same = set()
    for name, found in answers[0].items():
        told, explained = (rows_of(plan) for plan in found["plans"])
        for row in told.keys() & explained.keys() & {"optimizer", "batch", "learning rate", "on rank 0"}:
            texts = {text.removesuffix(" of the first fit") for text in explained[row]}
            in_words = any("when it runs" in text or "min(" in text for text in texts)
            # A second fit goes on warm.
            assert in_words or told[row][0] in texts, f"{name}: {row}"
            if told[row][0] in texts:
                same.add(row)
    assert len(same) == 4


def rows_of(plan: list[str]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for line in plan:
        rows.setdefault(line[2:16].strip(), []).append(line[17:])
    return rows


def test_from_the_command_line(tmp_path: Path) -> None:
    code = CASES["a string, validation_split and a list of callbacks"] + "\nprint(round(float(result[-1]), 4))\n"
    (tmp_path / "program.py").write_text(code)
    (tmp_path / "explicit.py").write_text(explain(code, world_size=2).program)
    lines = [
        subprocess.run(
            [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n2", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        ).stdout.splitlines()[-1]
        for options in (["--auto", "program.py"], ["explicit.py"])
    ]
    auto, explicit = (float(line.split()[-1]) for line in lines)
    assert explicit == pytest.approx(auto, abs=2e-4)
