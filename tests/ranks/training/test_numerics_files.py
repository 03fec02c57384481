"""Save on two ranks, resume on four; and open the file where there is neither Horovod nor jupyter_ddl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ranks.numerics_world import World, world_of

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

# The norm of a tensor's difference after 20 steps in float32, as for plain training (test_numerics_equality).
TOLERANCE = {"SGD": 1e-5, "Adagrad": 1e-5, "Adam": 1e-3}

# Plain Keras, trained on with the rest of the global batches; prints what it found.
OPEN_ELSEWHERE = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("horovod", "jupyter_ddl", "mpi4py"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Blocked())
import keras, numpy as np

folder, names = sys.argv[1], sys.argv[2:]
answers = {}
for name in names:
    state = np.load(f"{folder}/{name}-state.npz")
    for suffix in ("keras", "h5"):
        model = keras.models.load_model(f"{folder}/{name}.{suffix}")
        optimizer = model.optimizer
        wanted = [state[key] for key in state]
        found = [v.numpy() for v in (*model.weights, *optimizer.variables)]
        answers[f"{name}.{suffix}"] = {
            "class": type(optimizer).__module__,
            "weights": all(map(np.array_equal, found[:len(model.weights)], wanted)),
            "state": len(found) == len(wanted) and all(map(np.array_equal, found, wanted)),
            "iterations": int(optimizer.iterations.numpy()),
        }
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_of("numerics_files.py", 2, tmp_path_factory)


@pytest.fixture(scope="module")
def resumed(saved: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMERICS_SAVED", str(saved.folder))
        return world_of("numerics_resume_program.py", 4, tmp_path_factory)


def test_resumed_on_four_ranks(saved: World, resumed: World) -> None:
    assert saved.one("saved_half_way") == {"SGD": 10, "Adagrad": 10, "Adam": 10}
    for rank in resumed.every("resumed"):
        assert len(rank) == 6
        for case, found in rank.items():
            assert found["state"], f"{case}: weights and optimizer state must be those that were saved"
            assert found["iterations"] == [10, 20], case
            assert found["difference"] < TOLERANCE[Path(case).stem], f"{case}: one process with 20 steps"
            assert found["identical"], case


def test_a_fresh_optimizer_would_be_noticed(resumed: World) -> None:
    for name, difference in resumed.every("without_resuming")[0].items():
        assert difference > 10 * TOLERANCE[name], name


def test_opened_without_horovod_and_without_us(saved: World) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", OPEN_ELSEWHERE, str(saved.folder), *TOLERANCE],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        cwd=saved.folder,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    opened: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    assert len(opened) == 6
    for case, found in opened.items():
        assert found["class"].startswith("keras.src.optimizers"), case
        assert found["iterations"] == 10, case
        assert found["weights"], case
        # Plain Keras 3.15 leaves the moments of an .h5 file unread, whoever wrote it.
        assert found["state"] or case.endswith(".h5"), case
