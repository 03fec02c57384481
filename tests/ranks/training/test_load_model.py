"""hvd.load_model, on real ranks: what load_model_program.py found, in one MPI job a world size."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ranks.numerics_world import World

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.fixture(scope="module", params=[1, 2])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World("load_model_program.py", request.param, tmp_path_factory.mktemp(f"world-{request.param}"))


def test_training_goes_on_as_if_there_had_been_no_file(world: World) -> None:
    for case, found in world.one("trained_on").items():
        optimizer, saved_by, _ = case.split(", ")
        assert found["at once"] == 0.0, case
        if saved_by == "us":
            # fp16 rounds the gradients of the loaded model's steps.
            assert found["later"] <= (1e-3 if optimizer == "SGD" else 0.0), case
        name = {"schedule": "AdamW"}.get(optimizer, optimizer)
        assert found["class"] == f"Distributed{name}", case
        assert found["iterations"] == 8, case
        assert found["compression"] == ("FP16Compressor" if optimizer == "SGD" else "NoneCompressor"), case
        assert found["metrics"] == ["accuracy", "loss"], case


def test_files_of_keras_2_are_trained_on_as_keras_2_would(world: World) -> None:
    found = world.one("of_keras_2")
    assert found.keys() == {"2.15-adam", "2.15-sgd", "2.10-adam", "2.10-rmsprop", "2.10-adam, 2.2"}
    for name, answer in found.items():
        assert answer["iterations"] == 4, name
        assert answer["difference"] < 2e-6, name
        assert answer["metrics"] == (["acc", "loss"] if name.endswith("2.2") else ["accuracy", "loss"]), name
    assert {name: answer["class"] for name, answer in found.items()} == {
        "2.15-adam": "DistributedAdam",
        "2.15-sgd": "DistributedSGD",
        "2.10-adam": "DistributedAdam",
        "2.10-rmsprop": "DistributedRMSprop",
        "2.10-adam, 2.2": "DistributedAdam",
    }


def test_a_state_that_does_not_fit_is_told(world: World) -> None:
    for rank, found in enumerate(world.every("state_that_does_not_fit")):
        name = f"rank-{rank}-unfit.h5"
        text = f"The optimizer's state in {name} does not fit Adam of Keras 3: its moments start at zero."
        assert found == {"told": [text], "moments": 0.0}


def test_a_model_that_was_not_compiled_comes_back_so(world: World) -> None:
    assert world.one("not_compiled") == [False, False]


def test_classes_and_functions_of_the_users(world: World) -> None:
    for suffix, found in world.one("the_users_own").items():
        assert found == {"class": "DistributedOwnSGD", "difference": 0.0, "metrics": ["loss", "own_metric"]}, suffix


def test_a_lambda_is_run_where_that_is_wanted(world: World) -> None:
    assert world.one("a_lambda") == {"names the argument": True, "value": [[2.0] * 4]}


def test_a_file_may_have_any_name(world: World) -> None:
    assert world.one("names_of_files") == {"open": 0.0, "text": 0.0, "no ending": 0.0}


def test_errors(world: World) -> None:
    for rank, found in enumerate(world.every("errors")):
        assert found == {
            "missing": "hvd.load_model opens a file that this rank can read. Received: missing.h5, which is not there "
            f"on rank {rank}. Save it where all ranks see it, or load it on one rank and broadcast its weights.",
            "without": "hvd.load_model needs Horovod. Received: Horovod is not initialised. Call hvd.init() first.",
        }


OPEN_ELSEWHERE = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("horovod", "jupyter_ddl", "mpi4py"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Blocked())
import keras

optimizers = [keras.models.load_model(path).optimizer for path in sys.argv[1:]]
print(json.dumps([[type(optimizer).__name__, int(optimizer.iterations.numpy())] for optimizer in optimizers]))
"""


def test_a_model_saved_again_opens_without_horovod_and_without_us(world: World) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", OPEN_ELSEWHERE, *world.every("saved_again")[-1]],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        cwd=world.folder,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert json.loads(answer.stdout.splitlines()[-1]) == [["Adam", 8], ["Adam", 8]]
