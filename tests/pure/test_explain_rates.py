"""`--explain`: optimizers and their learning rates, of every form."""

from __future__ import annotations

import inspect

import pytest
from explained import ADAM, FIT, KERAS, flat, lines, rows, written

from jupyter_ddl.modernise.names import OPTIMIZERS as RATES

# --- optimizers and their rates ------------------------------------------------------------------------------


OPTIMIZERS = {
    "compile('sgd', 'mse')": ("SGD", "0.01 -> 0.04 (linear)", "keras.optimizers.SGD(learning_rate=0.01 * hvd.size())"),
    "compile(loss='mse')": (
        "RMSprop",
        "0.001 -> 0.002 (sqrt)",
        "keras.optimizers.RMSprop(learning_rate=0.001 * hvd.size() ** 0.5)",
    ),
    "compile(optimizer=keras.optimizers.Nadam())": (
        "Nadam",
        "0.001 -> 0.002 (sqrt)",
        "keras.optimizers.Nadam(learning_rate=0.001 * hvd.size() ** 0.5)",
    ),
    "compile(keras.optimizers.SGD(0.1 + 0.1, momentum=0.9))": (
        "SGD",
        "0.2 -> 0.8 (linear)",
        "keras.optimizers.SGD((0.1 + 0.1) * hvd.size(), momentum=0.9)",
    ),
    "compile(tf.keras.optimizers.Adam(learning_rate=rate))": (
        "Adam",
        "rate (known when it runs) times 2 (sqrt)",
        "tf.keras.optimizers.Adam(learning_rate=rate * hvd.size() ** 0.5)",
    ),
    "compile(keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Lion(1e-4)))": (
        "Lion",
        "0.0001 -> 0.0002 (sqrt)",
        "keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Lion(1e-4 * hvd.size() ** 0.5))",
    ),
}


@pytest.mark.parametrize("call", OPTIMIZERS)
def test_the_optimizer_of_compile(call: str) -> None:
    name, rate, text = OPTIMIZERS[call]
    code = f"{KERAS}import tensorflow as tf\nmodel.{call}\n{FIT}"
    plan = rows(code)
    assert plan["optimizer"] == f"{name} -> distributed"
    assert plan["learning rate"] == f"{rate} over 0.25 warm-up epochs"
    assert f"hvd.DistributedOptimizer({text})" in written(code).program


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from keras.optimizers import Adam", "Adam(3e-4)"),
        ("from tensorflow.keras import optimizers as opts", "opts.Adam(3e-4)"),
        ("", "Adam(3e-4)"),  # an earlier cell imported it
    ],
)
def test_an_optimizer_that_was_made_before(imports: str, call: str) -> None:
    code = f"{KERAS}{imports}\nmine = {call}\nmodel.compile(mine)\n{FIT}"
    assert rows(code)["optimizer"] == "Adam -> distributed"
    assert f"mine = {call.replace('3e-4', '3e-4 * hvd.size() ** 0.5')}" in lines(code)
    assert "model.compile(hvd.DistributedOptimizer(mine))" in lines(code)


def test_a_string_by_another_name() -> None:
    code = KERAS + "which = 'Adamax'\nmodel.compile(optimizer=which, loss='mse')\n" + FIT
    assert rows(code)["optimizer"] == "Adamax -> distributed"
    assert "keras.optimizers.Adamax(learning_rate=0.001 * hvd.size() ** 0.5)" in written(code).program


def test_how_the_rate_grows_and_for_how_long_can_be_said() -> None:
    code = ADAM + "epochs = 2 * 10\nmodel.fit(x, y, epochs=epochs)\n"
    assert rows(code)["learning rate"] == "0.001 -> 0.002 (sqrt) over 3 warm-up epochs"
    said = {"scale_lr": "linear", "warmup_epochs": 0.5}
    assert rows(code, **said)["learning rate"] == "0.001 -> 0.004 (linear) over 0.5 warm-up epochs"
    assert (
        "LearningRateWarmupCallback(initial_lr=0.001 * hvd.size(), warmup_epochs=0.5)" in written(code, **said).program
    )
    assert rows(code, warmup_epochs=0)["learning rate"] == "0.001 -> 0.002 (sqrt)"
    assert "LearningRateWarmupCallback" not in written(code, warmup_epochs=0).program
    assert "learning rate" not in rows(code, scale_lr="none")
    assert "keras.optimizers.Adam(learning_rate=0.001))" in written(code, scale_lr="none").program


def test_epochs_that_only_running_tells() -> None:
    code = ADAM + "model.fit(x, y, epochs=args.epochs + 1)\n"
    assert rows(code)["learning rate"] == "0.001 -> 0.002 (sqrt) over min(3, (args.epochs + 1) / 4) warm-up epochs"
    assert "warmup_epochs=min(3, (args.epochs + 1) / 4)" in written(code).program


def test_rates_of_two_models_are_asked_of_each() -> None:
    code = ADAM + FIT + "model.compile('sgd')\nmodel.fit(x, y, epochs=12)\n"
    assert written(code).program.count("initial_lr=float(model.optimizer.learning_rate.numpy())") == 2


def test_a_schedule_goes_by_the_samples_of_all() -> None:
    code = KERAS + (
        "cosine = keras.optimizers.schedules.CosineDecay(0.1, 1000)\n"
        "model.compile(keras.optimizers.SGD(cosine))\n" + FIT
    )
    assert rows(code)["learning rate"] == "CosineDecay times 4 (linear), by the samples seen over 0.25 warm-up epochs"
    program = lines(code)
    assert "class ScheduleOfAllRanks(keras.optimizers.schedules.LearningRateSchedule):" in program
    assert "model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(ScheduleOfAllRanks(cosine))))" in flat(code)
    assert "WarmUp(hvd.size(), 0.25)," in program
    assert not any("LearningRateWarmupCallback" in line for line in program)
    # One process's batches: the schedule is as it was.
    assert "ScheduleOfAllRanks" not in written(code, batch="global").program


@pytest.mark.parametrize(
    "sets",
    [
        "model.fit(x, y, callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)])",
        "model.fit(x, y, callbacks=[keras.callbacks.ReduceLROnPlateau(min_lr=1e-5)])",
        "model.optimizer.learning_rate = 0.1\nmodel.fit(x, y)",
        "model.optimizer.learning_rate.assign(0.1)\nmodel.fit(x, y)",
        "model.fit(tf.data.TFRecordDataset(files).batch(8))",  # of unknown length
    ],
)
def test_a_rate_that_the_program_sets_stays_its_own(sets: str) -> None:
    code = f"import tensorflow as tf\n{ADAM}{sets}\n"
    program = lines(code)
    assert "WarmUp(hvd.size() ** 0.5, 0.25)," in program
    assert any("keras.optimizers.Adam(learning_rate=0.001))" in line for line in program)
    assert not any("LearningRateWarmupCallback" in line for line in program)


def test_the_table_of_rates_is_keras_s_own() -> None:
    import keras

    own = {
        name: inspect.signature(kind.__init__).parameters["learning_rate"].default
        for name, kind in vars(keras.optimizers).items()
        if inspect.isclass(kind) and "learning_rate" in inspect.signature(kind.__init__).parameters
    }
    own.pop("Optimizer", None)
    assert own.keys() <= RATES.keys()
    assert own == {name: float(RATES[name]) for name in own}
