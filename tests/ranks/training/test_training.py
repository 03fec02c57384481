"""Horovod on Keras 3, on real ranks: what training_program.py found on ranks that others share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ranks.mpirun import WORLDS
from ranks.numerics_world import World, world_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# A norm of the difference, per tensor, after 20 steps of float32. Adam divides by the root of squares that start at
# zero, which magnifies a rounding of the first steps.
TOLERANCE = {"Adam": 1e-3, "other": 1e-5}


@pytest.fixture(scope="module", params=WORLDS)
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "training_program.py", tmp_path_factory)


def test_every_rank_has_its_place(world: World) -> None:
    assert world.every("initialise") == [[rank, world.size, rank] for rank in range(world.size)]


def test_twenty_steps_equal_one_process_with_the_global_batch(world: World) -> None:
    for name, answer in world.every("equals_one_process")[0].items():
        assert answer["dtypes"] == ["float32"]
        assert answer["moved"] > 1e-3, f"{name}: the weights must have been trained at all"
        assert answer["difference"] < TOLERANCE["Adam" if "Adam" in name else "other"], name


def test_weights_are_identical_on_every_rank(world: World) -> None:
    every_rank = [{name: case["checksum"] for name, case in rank.items()} for rank in world.every("equals_one_process")]
    assert all(rank == every_rank[0] for rank in every_rank)
    # The seeds of the ranks differ in these.
    assert world.one("broadcast_of_an_unbuilt_model")
    assert world.one("ways_of_compiling")["checksums"].keys() == {"eager", "XLA asked for", "several steps"}
    assert world.one("horovod_at_rest_between_two_fits")


def test_gradients_of_every_kind_are_averaged(world: World) -> None:
    n = world.size
    mean = (n + 1) / 2
    sliced = [[(row + 1) / n] * 3 if row < n else [0.0] * 3 for row in range(4)]
    sliced[3] = [sliced[3][0] + mean] * 3  # the row that every rank has
    wanted = {"dense": [[mean] * 3] * 4, "unreached": [[0.0] * 3] * 4, "sliced": sliced, "double": [[mean] * 3] * 4}
    assert world.one("custom_loop") == {"graph": wanted, "eager": wanted}


def test_sum_and_float16(world: World) -> None:
    n = world.size
    found = world.one("sum_and_compression")
    assert found["sum"] == pytest.approx([-n * (n + 1) / 2, -n / 3])
    assert found["fp16"] == pytest.approx([-(n + 1) / 2, -1 / 3], rel=1e-3)
    assert found["fp16"][1] != pytest.approx(-1 / 3, rel=1e-5), "a third must have been rounded to float16"


def test_collectives_on_values(world: World) -> None:
    n = world.size
    total = n * (n - 1) // 2
    assert world.one("values") == {
        "average": total / n,
        "sum": [total, n],
        "gathered": [[rank] for rank in range(n) for _ in range(rank + 1)],
        "broadcast": n - 1,
        "variable": [n - 1],
    }


def test_training_starts_from_the_root_rank(world: World) -> None:
    found = world.one("broadcast_at_the_start")
    assert found["same"], "weights and optimizer state must be the root's before the first step"
    assert found["iterations"] == 2, "the root had taken two steps"
    assert found["seed kept"]


def test_metrics_are_the_average_of_the_ranks(world: World) -> None:
    before = [rank["before"] for rank in world.every("metric_average")]
    for after in (rank["after"] for rank in world.every("metric_average")):
        assert after.keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}
        for name, values in after.items():
            for epoch, value in enumerate(values):
                own = [rank[epoch][name] for rank in before]
                assert value == pytest.approx(sum(own) / world.size, rel=1e-12)
                assert world.size == 1 or "loss" not in name or len(set(own)) > 1


def test_different_metrics_are_an_error_and_not_a_hang(world: World) -> None:
    text = (
        "All ranks must have the same metrics. Received: rank 0 has ['accuracy', 'loss', 'val_accuracy', 'val_loss'], "
        "rank 1 has ['accuracy', 'loss']. Compile and fit the model alike on all ranks; validate on all of them or on "
        "none."
    )
    assert world.one("different_metrics") == (None if world.size == 1 else text)


def test_xla_is_left_out_of_the_step_alone(world: World) -> None:
    found = world.one("ways_of_compiling")
    checksums = found["checksums"]
    assert checksums["XLA asked for"] == checksums["several steps"], "the same training, compiled or not"
    assert found["XLA stays for prediction"] is True
    assert world.one("xla_around_the_exchange") == (
        "XLA cannot compile the exchange of gradients. Received: a tf.function of your own with jit_compile=True "
        "around the optimizer's apply or the tape's gradient. Compile the forward and backward pass alone, and "
        "exchange outside it."
    )


def test_layers_that_promise_statistics_of_all_ranks_are_told_of(world: World) -> None:
    first, *others = world.every("statistics_of_all_ranks")
    told = first["told"].splitlines()
    assert len(told) == (world.size > 1), "once, though fit is called again"
    assert all(line.startswith("WARNING: normalised: synchronized=True is for the devices") for line in told)
    assert {other["told"] for other in others} <= {""}
    assert first["refused"].startswith("hvd.SyncBatchNormalization is a layer for Keras 2. Received: one with Keras 3")


def test_xla_compiles_what_makes_variables_of_a_model_that_is_not_distributed(world: World) -> None:
    assert world.every("xla_of_a_model_that_is_each_ranks_own") == [["accuracy", "loss"]] * world.size


def test_ranks_agree_on_the_steps_that_overflow(world: World) -> None:
    found = world.one("mixed_float16")
    scale, steps = found["state"]
    assert scale < 2.0**16, "some step must have overflown"
    assert 0 < steps < 6, "and some not"
    assert found["wrapped by compile"] == ["DistributedLossScaleOptimizer", "SGD"]
    assert world.one("scaled_outside") == ["DistributedLossScaleOptimizer", "SGD"] * 2


def test_a_rank_that_stops_alone_stops_all(world: World) -> None:
    found = world.every("stopped_on_one_rank")
    assert {one["epochs"] for one in found} == {1}
    assert len({one["checksum"] for one in found}) == 1
    told = (
        f"Training stops on all ranks, since it stopped on rank {world.size - 1}. Callbacks that stop training decide "
        "alike where MetricAverageCallback comes before them.\n"
    )
    assert [one["printed"] for one in found] == [told] * (world.size - 1) + [""]


def test_fit_compares_the_weights(world: World) -> None:
    last = world.size - 1
    others = "rank 0" if last == 1 else f"ranks 0-{last - 1}"
    for found in world.every("fit_out_of_sync"):
        assert found["a rounding"] is None
        if world.size == 1:
            assert found["much"] is None
        else:
            start, _, rest = found["much"].partition(" (seen after step ")
            received = f"rank {last} of {world.size} differs from {others} since epoch 1"
            assert start == f"All ranks must hold the same weights. Received: {received}"
            assert " (kernel by " in rest
            assert rest.endswith("and train all weights with one hvd.DistributedOptimizer.")


def test_training_without_exchange_is_told(world: World) -> None:
    told = (
        f"WARNING: each of the {world.size} ranks trains a model of its own: no gradients are exchanged. Wrap the "
        "optimizer with hvd.DistributedOptimizer; or, if you want a model on each rank, pass --independent.\n"
    )
    for found in world.every("plain_optimizer"):
        assert found["printed"] == ("" if world.size == 1 else told), "once, and not each epoch"


def test_ranks_out_of_sync_are_named(world: World) -> None:
    same = [rank["same"] for rank in world.every("out_of_sync")]
    assert len(set(same)) == 1
    remedy = (
        "Wrap the optimizer with hvd.DistributedOptimizer and pass hvd.callbacks.BroadcastGlobalVariablesCallback(0) "
        "to fit."
    )
    # Where most ranks agree, they are those that the others differ from.
    who = {1: None, 2: "rank 1 of 2 differs from rank 0", 4: "rank 0 of 4 differs from ranks 1-3"}[world.size]
    for rank, found in enumerate(world.every("out_of_sync")):
        assert (found["checksum"] == same[0]) == (rank == 0)
        if who is None:
            assert found["error"] is None
        else:
            start, _, rest = found["error"].partition(" in layer ")
            assert start == f"All ranks must hold the same weights. Received: {who}"
            assert " (bias). " in rest
            assert rest.endswith(remedy)
    number = f"{who} in the number of weights ({'6 and 4' if world.size == 2 else '4 and 6'})"
    text = f"All ranks must hold the same weights. Received: {number}. {remedy}"
    assert world.one("different_models") == (None if who is None else text)
    for found in world.every("plain_optimizer"):
        assert (found["error"] is None) == (world.size == 1), "a plain optimizer trains a model of its own on each rank"


def test_horovod_must_be_initialised(world: World) -> None:
    what = {
        "optimizer": "hvd.DistributedOptimizer",
        "broadcast callback": "BroadcastGlobalVariablesCallback",
        "metric callback": "MetricAverageCallback",
        "allreduce": "hvd.allreduce",
        "check_in_sync": "hvd.check_in_sync",
    }
    assert world.one("a_step_without_horovod") == (
        "A distributed optimizer or tape needs Horovod. Received: Horovod is not initialised. Call hvd.init() first."
    )
    assert world.one("without_init") == {
        key: f"{name} needs Horovod. Received: Horovod is not initialised. Call hvd.init() first."
        for key, name in what.items()
    }


def test_wrong_arguments(world: World) -> None:
    n = world.size

    def root(received: int) -> str:
        return (
            f"root_rank must be one of the ranks. Received: root_rank={received}, world_size={n}. "
            f"Pass 0 <= root_rank < {n}."
        )

    assert world.one("wrong_arguments") == {
        "twice": "An optimizer is distributed once. Received: a DistributedSGD. Drop the second "
        "hvd.DistributedOptimizer.",
        "no optimizer": "hvd.DistributedOptimizer takes a Keras 3 optimizer. Received: builtins.str. Pass one of "
        "keras.optimizers, e.g. keras.optimizers.Adam(1e-3).",
        "op": "op must be Average, Sum or Adasum. Received: op=3. Pass hvd.Average, hvd.Sum or hvd.Adasum.",
        "root of callback": root(n),
        "root of broadcast": root(-1),
        "root of variables": root(99),
    }


# --- saved on a rank, opened elsewhere -----------------------------------------------------------------------

OPEN_ELSEWHERE = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("horovod", "jupyter_ddl", "mpi4py"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Blocked())
import keras, numpy as np

answers = []
for path in sys.argv[1:]:
    model = keras.models.load_model(path)
    optimizer = model.optimizer
    answers.append({
        "prediction": model(np.ones((1, 8, 8, 1))).numpy().tolist(),
        "class": type(optimizer).__module__ + "." + type(optimizer).__name__,
        "iterations": int(optimizer.iterations.numpy()),
        "state": float(sum(np.sum(v.numpy().astype("float64")) for v in optimizer.variables)),
    })
    if path.endswith(".keras"):  # an .h5 file cannot be trained on from, with plain Keras 3.15 either
        model.run_eagerly = True  # nothing to trace
        model.fit(np.ones((8, 8, 8, 1)), np.ones(8), verbose=0)
print(json.dumps(answers))
"""


def test_a_model_saved_on_a_rank_opens_without_horovod_and_without_us(world: World) -> None:
    rank = world.size - 1
    saved = world.every("saved")[rank]
    files = [world.folder / f"saved-{rank}.{suffix}" for suffix in ("keras", "h5")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    answer = subprocess.run(
        [sys.executable, "-c", OPEN_ELSEWHERE, *map(str, files)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=world.folder,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    keras_file, h5_file = json.loads(answer.stdout.splitlines()[-1])
    # Plain Keras 3.15 does not read the moments back from an .h5 file either.
    assert keras_file["state"] == pytest.approx(saved["state"], rel=1e-6)
    for opened in (keras_file, h5_file):
        assert opened["class"] == "keras.src.optimizers.adam.Adam"
        assert opened["iterations"] == saved["iterations"] == 4
        assert opened["prediction"][0] == pytest.approx(saved["prediction"][0], rel=1e-5, abs=1e-7)


def test_a_distributed_optimizer_is_serialised_as_the_plain_one(world: World) -> None:
    for saved in world.every("saved"):
        assert saved["class"] == "DistributedAdam"
        assert saved["same class"], "the subclass is made once"
        assert (saved["config"]["module"], saved["config"]["class_name"]) == ("keras.optimizers", "Adam")
        assert "ddl" not in json.dumps(saved["config"])
        assert saved["own registered name"] == "site>OwnSGD"
