"""`jupyter ddl bench scaling` and `jupyter ddl tune` on two ranks; CosmoGAN's two optimizers stay in sync."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.errors import DdlError
from jupyter_ddl.kernel.magics.tuned_cell import tune_cell
from jupyter_ddl.scaling_program.models.cosmogan import LATENT
from tests.ranks.sizes import slow_but

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

DDL = [sys.executable, "-m", "jupyter_ddl.cli"]
HANGS_S = 280
SMALL = {"cnn": ("28", "16"), "cosmogan": ("16", "4"), "hep-cnn": ("32", "2"), "transformer": ("8", "2")}


def ddl(folder: Path, *words: str) -> str:
    """Run `jupyter ddl` and return what it printed."""
    ended = subprocess.run([*DDL, *words], cwd=folder, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def points(folder: Path, model: str, *words: str) -> list[dict[str, Any]]:
    """Measure a model with few steps; return its points."""
    size, batch_size = SMALL[model]
    steps = ("--steps", "4", "--warm-up", "1", "--rounds", "1", "--size", size, "--batch-size", batch_size)
    ddl(folder, "bench", "scaling", "--model", model, *steps, "--no-plots", "--out", "out", *words)
    found: list[dict[str, Any]] = json.loads((folder / "out" / "results.json").read_text())["points"]
    return found


@pytest.mark.parametrize("model", slow_but({"cnn"}, SMALL))
def test_a_model_is_measured_and_its_ranks_are_in_sync(model: str, tmp_path: Path) -> None:
    # The program itself compares the weights of all ranks, and fails where they differ: CosmoGAN's have two optimizers.
    (point,) = points(tmp_path, model, "--ranks", "2")
    (run,) = point["runs"]
    assert len(run["step_s"]) == 4
    assert len(run["compute_s"]) == 2 * 4
    assert run["parameters"] > 0
    assert any(abs(size - 4 * run["parameters"]) < 64 for size, _ in run["exchange_s"])
    assert run["exchange_s"][-1][0] >= 16 * 2**20
    assert all(seconds > 0 for _, seconds in run["exchange_s"])
    assert 0 < run["latency_s"] < 1


@pytest.mark.slow
def test_strategies_are_measured_on_the_same_ranks(tmp_path: Path) -> None:
    against = "mirrored,multiworker,parameter-server,grpc"
    found = points(tmp_path, "cnn", "--ranks", "2", "--against", against)
    assert [point["side"] for point in found] == ["horovod", *against.split(",")]
    assert all(len(point["runs"][0]["losses"]) == 5 for point in found)


AUTO = f"""
import keras
import numpy as np
from jupyter_ddl.scaling_program.models import cosmogan
gan = cosmogan.trainable(keras, 16)
gan.compile()
maps, _ = cosmogan.MODEL.data(np.random.default_rng(1), 16, 16)
gan(np.zeros((1, 16, 16, 1), "float32"))
gan.generator(np.zeros((1, {LATENT}), "float32"))
before = [weight.numpy().copy() for weight in gan.trainable_variables]
gan.fit(maps, batch_size=4, epochs=2, verbose=0)
import horovod.tensorflow as hvd
every = hvd.allgather_object([weight.numpy().tobytes() for weight in gan.trainable_variables])
assert all(rank == every[0] for rank in every)
networks = gan.discriminator, gan.generator
for network in networks:
    assert any((weight.numpy() != before[i]).any()
               for i, weight in enumerate(gan.trainable_variables)
               if any(weight is own for own in network.trainable_variables))
print("in sync", len(every), [int(o.iterations) for o in (gan.for_discriminator, gan.for_generator)])
"""


@pytest.mark.slow
def test_a_train_step_with_two_optimizers_stays_in_sync_under_auto(tmp_path: Path) -> None:
    (tmp_path / "gan.py").write_text(AUTO)
    # 16 maps in batches of 4 on each of two ranks, two epochs.
    assert "in sync 2 [4, 4]" in ddl(tmp_path, "run", "-n", "2", "--auto", "gan.py")


TRAIN = """
import jupyter_ddl.keras as hvd
import keras
import numpy as np
hvd.init()
x = np.ones((800, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
raise SystemExit("the steps of a trial are over before")
"""


def test_a_cell_that_does_not_train_is_not_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DdlError, match="The cell was not tuned"):
        tune_cell("assert local_rank == rank in range(world_size)", 2, "compression", auto=False)
    assert "What is tuned trains for some steps of Keras's fit" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cell_is_tuned_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    tune_cell(f"assert local_rank == rank in range(world_size)\n{TRAIN}", 2, "compression", auto=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[-4:-2]] == ["as it is", "fp16"]
    assert lines[-1] == "Nothing gains 3% in every round: leave it as it is."


@pytest.mark.slow
def test_a_script_is_tuned_and_ends_after_the_steps_of_each_trial(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    words = ("--steps", "5", "--warm-up", "2", "--rounds", "1", "--only", "compression", "train.py")
    lines = ddl(tmp_path, "tune", "-n", "2", *words).splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["as it is", "fp16"]
    assert lines[2].endswith("gradients travel as float16")
    assert lines[-1] == "Nothing gains 3% in every round: leave it as it is.", "fp16 is never set by itself"
