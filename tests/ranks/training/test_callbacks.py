"""Horovod's callbacks on Keras 3, on real ranks: what callbacks_program.py found on ranks that others share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ranks.mpirun import PAIR
from ranks.numerics_world import World, world_on
from ranks.training.callbacks_reference import RATE, STEPS, reference_weights, warm_up_rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module", params=PAIR)
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "callbacks_program.py", tmp_path_factory)


# --- metrics over all ranks -----------------------------------------------------------------------------------------


def test_metrics_equal_those_of_all_data(world: World) -> None:
    """Ranks have different numbers of samples, in training and in validation, which have weights, too."""
    for found, wanted in ((rank["found"], rank["wanted"]) for rank in world.every("metrics_equal_those_of_all_data")):
        assert found.keys() == wanted.keys()
        assert {"auc", "val_precision", "val_rmse", "mae", "val_loss"} <= found.keys()
        for name in found.keys() - {"largest", "val_largest"}:
            assert found[name] == pytest.approx(wanted[name], rel=1e-5), name
        # A maximum is no sum, and nobody tells us: it is averaged over the ranks.
        assert (found["largest"] < wanted["largest"] * 0.999) == (world.size > 1)


def test_metrics_where_ranks_have_fewer_batches(world: World) -> None:
    for rank in world.every("metrics_where_ranks_have_fewer_batches"):
        for name in rank["found"].keys() - {"largest"}:
            assert rank["found"][name] == pytest.approx(rank["wanted"][name], rel=1e-5), name


def test_metrics_after_an_evaluation_of_the_users_are_those_of_the_epoch(world: World) -> None:
    found = world.every("metrics_after_an_evaluation_of_the_users")
    for rank in found:
        for name, value in rank["average"].items():
            assert value == pytest.approx(np.mean([other["own"][name] for other in found]), rel=1e-9), name


def test_logs_may_hold_what_they_like(world: World) -> None:
    mean = (world.size - 1) / 2
    for rank, logs in enumerate(world.every("logs_of_every_kind")):
        assert logs == {
            "python": mean,
            "integer": mean,
            "numpy": mean,
            "vector": [mean, 1.0],
            "tensor": mean,
            "nested": {"deep": mean, "text": "deep"},
            "text": f"rank {rank}",
            "nothing": None,
        }


def test_metrics_of_a_process_set(world: World) -> None:
    for rank, found in enumerate(world.every("metrics_of_a_process_set")):
        assert found["logs"] == {"value": float(rank)}
        assert found["error"] == (
            "MetricAverageCallback over a process set is called by its ranks only. Received: rank 1, process set of "
            "ranks [0]. Call it where process_set.included() is true."
            if rank == 1
            else None
        )


def test_different_metrics_are_an_error_on_every_rank(world: World) -> None:
    text = (
        "All ranks must have the same metrics. Received: rank 0 has ['loss'], rank 1 has ['accuracy', 'loss']. Compile "
        "and fit the model alike on all ranks; validate on all of them or on none."
    )
    assert world.one("different_metrics") == (text if world.size > 1 else None)


# --- weights of the root --------------------------------------------------------------------------------------------


def test_local_variables_stay(world: World) -> None:
    for rank, found in enumerate(world.every("local_variables_stay")):
        kernels, biases = found["kept"][::2], found["kept"][1::2]
        assert kernels == [True, True]
        assert biases == [rank == 0] * 2
        assert found["alike"] == [world.size == 1, True] * 2


def test_a_model_without_input_shape_is_alike_after_its_first_step(world: World) -> None:
    found = world.one("a_deferred_model_with_one_step_an_epoch")
    assert found["first"] != found["second"]


def test_errors_of_the_broadcast(world: World) -> None:
    n = world.size
    assert world.one("broadcast_errors") == {
        "root": f"root_rank must be one of the ranks. Received: root_rank={n}, world_size={n}. "
        f"Pass 0 <= root_rank < {n}.",
        "local": "local_variables takes variables. Received: builtins.int. Pass e.g. layer.trainable_weights.",
    }


# --- learning rates -------------------------------------------------------------------------------------------------


def test_warm_up(world: World) -> None:
    found = world.one("warm_up")
    for case, epochs in {"usual": 3, "given steps": 2, "half an epoch": 0.5, "scaled loss": 3}.items():
        wanted = warm_up_rates(world.size, epochs)
        assert found[case]["rates"] == pytest.approx(wanted, rel=1e-6), case
        assert found[case]["lr"] == pytest.approx(wanted[STEPS - 1 :: STEPS], rel=1e-6), case
        assert found[case]["last"] == pytest.approx(RATE, rel=1e-6), case
    assert found["none"]["rates"] == pytest.approx([RATE] * 4 * STEPS)
    assert found["resumed"]["rates"] == pytest.approx(warm_up_rates(world.size, 3)[2 * STEPS :], rel=1e-6)
    assert found["steps in one execution"]["rates"] == pytest.approx(warm_up_rates(world.size, 3)[1::2], rel=1e-6)


def test_schedules(world: World) -> None:
    found = world.one("schedules")
    epochs = np.arange(4)
    steps = np.arange(4 * STEPS) / STEPS
    # From epoch 1 to before 3; after that it stays where it was.
    assert found["number"]["lr"] == pytest.approx([RATE, RATE, RATE / 2, RATE / 2], rel=1e-6)
    assert found["function"]["rates"] == pytest.approx(np.repeat(RATE / (1 + epochs), STEPS), rel=1e-6)
    assert found["smooth"]["rates"] == pytest.approx(RATE / (1 + steps), rel=1e-6)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("name", ["SGD", "nesterov", "RMSprop", "plain SGD"])
def test_momentum_under_a_changing_learning_rate(world: World, name: str, corrected: bool) -> None:
    found = world.one("momentum")
    answer = found[f"{name}, {corrected}"]
    wanted = reference_weights(name, answer["rates"], corrected=corrected)
    assert answer["weights"] == pytest.approx(wanted.ravel().tolist(), rel=1e-7)
    if name != "plain SGD":
        other = found[f"{name}, {not corrected}"]["weights"]
        assert np.abs(np.subtract(other, answer["weights"])).max() > 1e-4, "the correction must show"


def test_older_horovods_callbacks_take_the_optimizers_rate(world: World) -> None:
    for rank, found in enumerate(world.every("older_horovod")):
        wanted = warm_up_rates(world.size, 3)
        assert found["keyword"]["rates"] == found["positional"]["rates"] == pytest.approx(wanted, rel=1e-6), rank
        assert found["schedule"]["lr"] == pytest.approx([RATE] * 3 + [RATE / 2], rel=1e-6)
        name = "LearningRate{0}Callback"
        once = f"Old spelling: {name} without initial_lr. Today: {name}(initial_lr=0.4, ...).\n"
        assert found["said"] == [once.format("Warmup"), "", once.format("Schedule")]
        whole = [2 * rate / RATE for rate in warm_up_rates(world.size, 3)]
        assert found["a rate that is a whole number"] == pytest.approx(whole[:STEPS], rel=1e-6)


def test_rank_0_says_when_the_rate_has_warmed_up(world: World) -> None:
    for rank, said in enumerate(world.every("said_at_the_end")):
        text = "\nEpoch 2: the learning rate has warmed up to 0.4.\n" if rank == 0 else ""
        assert said == [text, text]


def test_errors_of_learning_rates(world: World) -> None:
    def not_a_number(received: str, name: str = "Warmup") -> str:
        what = f"LearningRate{name}Callback"
        return (
            f"{what} sets the optimizer's learning rate, so that must be a number. Received: {received}. "
            f"Pass a number, e.g. learning_rate=1e-3, or leave {what} out."
        )

    found: dict[str, Any] = world.one("errors_of_rates")
    for case in ("schedule", "scaled"):
        assert found.pop(case) == not_a_number("sgd with the schedule ExponentialDecay")
    assert found.pop("function") == not_a_number("adam with a function as its learning rate", "Schedule")
    assert found.pop("no rate") == not_a_number("a object, which has no learning rate of its own", "Schedule")
    assert found == {
        "steps": "LearningRateWarmupCallback needs to know how many steps an epoch has. Received: data of unknown "
        "length. Pass steps_per_epoch to fit, or to LearningRateWarmupCallback.",
        "multiplier": "LearningRateScheduleCallback needs a multiplier. Received: multiplier=None. Pass a function of "
        "the epoch, or a number.",
        "epochs": "warmup_epochs must be at least 0. Received: -1. Pass e.g. 5.",
    }


# --- the best model -------------------------------------------------------------------------------------------------


def test_the_best_model_is_kept(world: World) -> None:
    def ends(endings: str, received: str, example: str) -> str:
        return (
            f"BestModelCheckpoint saves to a file whose name ends in {endings}. Received: filepath={received}. "
            f"Set its filepath, e.g. '{example}', before fit."
        )

    whole = ".keras or .h5 or .hdf5"
    assert world.one("best_model") == {
        "unset": ends(whole, "None", "best.keras"),
        "ending": ends(whole, "FOLDER/best.txt", "best.keras"),
        "of epoch": [False, True, False],
        "weights only": ends(".weights.h5", "'best.h5'", "best.weights.h5"),
    }
