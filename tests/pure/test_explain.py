"""`--explain`: the plan and the program that it makes of code, and the code that it does not write out."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
from textwrap import dedent
from typing import Any

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import Explanation, explain, render
from jupyter_ddl.explain.calls import ARGUMENTS
from jupyter_ddl.modernise.names import OPTIMIZERS as RATES

KERAS = "import keras\nkeras.utils.set_random_seed(1)\nmodel = keras.Sequential([keras.layers.Dense(1)])\n"
ADAM = KERAS + "model.compile('adam', 'mse')\n"
FIT = "model.fit(x, y)\n"


def written(code: str, **options: Any) -> Explanation:
    explanation = explain(code, world_size=4, **options)
    ast.parse(explanation.program)
    return explanation


def rows(code: str, **options: Any) -> dict[str, str]:
    """Return the plan by the names of its rows."""
    head, *lines = written(code, **options).plan
    assert head == "Distributed over 4 ranks:"
    return {line[2:16].strip(): line[17:] for line in lines}


def lines(code: str, **options: Any) -> list[str]:
    """Return the lines of the program, without indentation and comments of their own."""
    program = written(code, **options).program
    return [line.strip() for line in program.splitlines() if line.strip() and not line.strip().startswith("#")]


def flat(code: str, **options: Any) -> str:
    """Return the program in one line, each call written in one line."""
    text = " ".join(lines(code, **options))
    return text.replace("( ", "(").replace(", )", ")").replace("[ ", "[").replace(", ]", "]")


# --- the whole -------------------------------------------------------------------------------------------------


def test_a_program_from_its_first_line_to_its_last() -> None:
    code = dedent(
        '''
        """A small one."""
        import keras

        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        history = model.fit(x, y, batch_size=64, epochs=20)  # trains
        '''
    ).lstrip()
    explanation = explain(code, world_size=4)
    assert (
        render(explanation)
        == dedent(
            '''
        Distributed over 4 ranks:
          optimizer      Adam -> distributed
          data           x, y: each rank takes its part of each batch; how many samples is known when it runs
          batch          64 a rank, 256 in all
          learning rate  0.001 -> 0.002 (sqrt) over 3 warm-up epochs
          on rank 0      progress bar and print

        """A small one."""
        import keras

        import horovod.tensorflow.keras as hvd
        import jupyter_ddl.data

        hvd.init()  # connects the ranks

        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Dense(1)])
        # N ranks see N times the samples in a step: sqrt(N) times the learning rate (Krizhevsky 2014).
        # Average the gradients over the ranks before each update.
        model.compile(
            optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(learning_rate=0.001 * hvd.size() ** 0.5)),
            loss="mse",
        )
        history = model.fit(
            # This rank's part of each batch.
            jupyter_ddl.data.parts(x, y, batch_size=64 * hvd.size()),
            epochs=20,
            callbacks=[
                # The metrics of all ranks, before other callbacks read them.
                hvd.callbacks.MetricAverageCallback(),
                # Small steps at first: from 1/N of the rate, at N ranks.
                hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size() ** 0.5, warmup_epochs=3),
                # All ranks begin with rank 0's weights.
                hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            ],
            verbose=1 if hvd.rank() == 0 else 0,
        )  # trains
        '''
        ).strip()
    )


def test_what_is_written_is_not_written_again() -> None:
    with pytest.raises(
        InvalidInput, match=r"that has none\. Received: line 3: import horovod\.tensorflow\.keras as hvd"
    ):
        explain(explain(ADAM + FIT, world_size=2).program, world_size=2)


# --- magics ----------------------------------------------------------------------------------------------------


def test_lines_of_ipython_stay() -> None:
    code = "%%time\n%matplotlib inline\n" + ADAM + FIT + "!ls *.keras\nmodel?\n"
    program = explain(code, world_size=2).program
    assert program.startswith("%%time\n%matplotlib inline\nimport keras\n\nimport horovod")
    assert program.endswith("!ls *.keras\nmodel?\n")


def test_a_cell_s_own_magic_loses_what_asked_for_auto() -> None:
    code = "%%distributed -r 0-1 --auto --batch global --scale-lr=none --warmup-epochs 2 --explain --timeout 9\n"
    assert explain(code + ADAM + FIT, world_size=2).program.startswith("%%distributed -r 0-1 --timeout 9\nimport")


def test_a_cell_of_another_language() -> None:
    with pytest.raises(InvalidInput) as raised:
        explain("%%bash\nls\n", world_size=2)
    assert str(raised.value) == "--explain reads Python. Received: %%bash. Leave this magic out, or --explain."


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


def test_the_tables_of_arguments_are_keras_s_own() -> None:
    import keras

    for method, names in ARGUMENTS.items():
        found = [name for name in inspect.signature(getattr(keras.Model, method)).parameters if name != "self"]
        assert tuple(name for name in found if name != "kwargs") == names, method


# --- data ------------------------------------------------------------------------------------------------------

TF = "import tensorflow as tf\n"
DATASET = "tf.data.Dataset.from_tensor_slices((x, y))"
# The statements before fit, what fit is given, and what a rank gives it with per-rank batches.
DATA = {
    "arrays": ("", "x, y, 64", "jupyter_ddl.data.parts(x, y, batch_size=64 * hvd.size()),"),
    "arrays by name": (
        "",
        "y=y, x=x, sample_weight=w, batch_size=a + b, shuffle=False",
        "jupyter_ddl.data.parts(x, y, sample_weight=w, batch_size=(a + b) * hvd.size(), shuffle=False),",
    ),
    "several inputs": ("", "[a, b], y", "jupyter_ddl.data.parts([a, b], y, batch_size=32 * hvd.size()),"),
    "arrays and steps": (
        "",
        "x, y, steps_per_epoch=7",
        "jupyter_ddl.data.parts(x, y, batch_size=(-(-len(x) // 7)) * hvd.size()),",
    ),
    "an array alone": ("x = np.ones((4, 2)) / 2", "x", "jupyter_ddl.data.parts(x, batch_size=32 * hvd.size()),"),
    "a dataset": (f"ds = {DATASET}\nds = ds.shuffle(9).batch(16)", "ds", "jupyter_ddl.data.shard(ds),"),
    "a dataset in the call": ("", f"{DATASET}.batch(16)", f"jupyter_ddl.data.shard({DATASET}.batch(16)),"),
    "of a directory": (
        "ds, val = keras.utils.image_dataset_from_directory('a', subset='both')",
        "ds",
        "jupyter_ddl.data.shard(ds),",
    ),
    "of a function": (
        f"def made():\n    whole = {DATASET}\n    return whole.batch(2)\nds = made()",
        "ds",
        "jupyter_ddl.data.shard(ds),",
    ),
    "a PyDataset": ("class Mine(keras.utils.PyDataset):\n    pass\nmine = Mine()", "mine", "EveryNth(mine),"),
    "a generator": (
        "def endless():\n    while True:\n        yield 1, 2\n",
        "endless()",
        "(batch for batch in itertools.islice(endless(), hvd.rank(), None, hvd.size())),",
    ),
}


@pytest.mark.parametrize("kind", DATA)
def test_data(kind: str) -> None:
    before, given, mine = DATA[kind]
    assert mine in flat(f"{TF}{ADAM}{before}\nmodel.fit({given})\n")


def test_data_whose_batches_are_of_all_ranks() -> None:
    options = {"batch": "global"}
    assert "jupyter_ddl.data.parts(x, y, batch_size=64, keeps_order=True)," in lines(
        ADAM + "model.fit(x, y, 64)\n", **options
    )
    assert "jupyter_ddl.data.parts(ds, shuffle=False)," in lines(ADAM + "model.fit(ds)\n", **options)
    assert "learning rate" not in rows(ADAM + FIT, **options)
    assert rows(ADAM + "model.fit(x, y, 60)\n", **options)["batch"] == "15 a rank, 60 in all"
    code = TF + ADAM + f"model.fit({DATASET}.batch(n), steps_per_epoch=5)\n"
    assert "steps_per_epoch=5," in lines(code, **options)
    assert "steps" not in rows(code, **options)
    assert rows(code, **options)["batch"] == "its size (known when it runs) is that of all ranks together"


def test_the_plan_says_what_only_running_tells() -> None:
    code = TF + ADAM + f"model.fit({DATASET}.batch(n))\n"
    assert rows(code)["data"] == (
        f"{DATASET}.batch(n): each rank reads 1 of 4 shards, of files or of elements; how many samples is known when "
        "it runs"
    )
    assert rows(code)["batch"] == "its size (known when it runs) is that of each rank"
    assert rows(ADAM + "model.fit(x, y, n)\n")["batch"] == "n (known when it runs) is that of each rank"
    code = TF + ADAM + f"size = 8\nmodel.fit({DATASET}.repeat().batch(size).prefetch(1), steps_per_epoch=10)\n"
    assert rows(code)["batch"] == "8 a rank, 32 in all"
    assert rows(code)["steps"] == "10 -> 3 an epoch"
    assert "steps_per_epoch=-(-10 // hvd.size())," in lines(code)


def test_validation() -> None:
    part = "validation_data=jupyter_ddl.data.parts(a, b, batch_size=32 * hvd.size(), shuffle=False)"
    assert part in flat(ADAM + "model.fit(x, y, validation_data=(a, b))\n")
    part = "validation_data=jupyter_ddl.data.parts(val, shuffle=False),"
    assert part in lines(f"{TF}{ADAM}val = {DATASET}.batch(9)\nmodel.fit(x, y, validation_data=val)\n")
    assert "validation_data=val," in lines(ADAM + "model.fit(x, y, validation_data=val)\n")
    whole = lines(ADAM + "model.fit(x, y, validation_data=(a, b), validation_steps=2)\n")
    assert "validation_data=(a, b)," in whole
    assert "validation_steps=2," in whole


def test_validation_split_keeps_the_last_part() -> None:
    program = flat(ADAM + "def train():\n    return model.fit(x, [a, b], 8, validation_split=0.25)\n")
    assert "validation_begins = int(len(x) * (1 - 0.25)) return model.fit(" in program
    first = "x[:validation_begins], [a[:validation_begins], b[:validation_begins]]"
    assert f"jupyter_ddl.data.parts({first}, batch_size=8 * hvd.size())" in program
    last = "x[validation_begins:], [a[validation_begins:], b[validation_begins:]]"
    assert f"validation_data=jupyter_ddl.data.parts({last}, batch_size=8 * hvd.size(), shuffle=False)" in program


@pytest.mark.parametrize("data", ["inputs = [a, b]\n", "inputs = {'a': a, 'b': b}\n"])
def test_validation_split_of_several_inputs_by_one_name(data: str) -> None:
    program = flat(ADAM + data + "model.fit(inputs, {'c': c}, validation_split=0.1)\n")
    assert "validation_begins = int(len(keras.tree.flatten(inputs)[0]) * (1 - 0.1))" in program
    rows_of = "keras.tree.map_structure(lambda rows: rows[{}], {})".format
    first, last, target = ":validation_begins", "validation_begins:", "{'c': c}"
    assert f"parts({rows_of(first, 'inputs')}, {rows_of(first, target)}, batch" in program
    assert f"parts({rows_of(last, 'inputs')}, " in program


def test_class_weight_becomes_weights_of_samples() -> None:
    program = flat(ADAM + "model.fit(x, y, class_weight={0: 1, 1: 3})\n")
    assert "sample_weight=weights_of(y, {0: 1, 1: 3})" in program
    assert "def weights_of(y, class_weight):" in program
    assert "import numpy as np" in program


# --- callbacks, output, files ----------------------------------------------------------------------------------


def test_callbacks_that_write_are_rank_0_s() -> None:
    code = ADAM + (
        "from keras.callbacks import CSVLogger, EarlyStopping\n"
        "log = CSVLogger('a.csv')\n"
        "keep = [log, EarlyStopping()]\n"
        "keep.append(keras.callbacks.TensorBoard())\n"
        "model.fit(x, y, callbacks=keep)\n"
    )
    program = lines(code)
    assert "keep = [*([log] if hvd.rank() == 0 else []), EarlyStopping()]" in program
    at = program.index("if hvd.rank() == 0:")
    assert program[at + 1] == "keep.append(keras.callbacks.TensorBoard())"
    assert "*keep," in program
    assert rows(code)["on rank 0"] == "TensorBoard, CSVLogger, progress bar and print"


def test_callbacks_of_every_form() -> None:
    one = lines(ADAM + "model.fit(x, y, callbacks=keras.callbacks.CSVLogger('a.csv'))\n")
    assert "*([keras.callbacks.CSVLogger('a.csv')] if hvd.rank() == 0 else [])," in one
    unknown = lines(ADAM + "def train(callbacks=None):\n    model.fit(x, y, callbacks=callbacks)\n")
    assert "*keras.tree.flatten(callbacks or [])," in unknown
    restores = lines(ADAM + "model.fit(x, y, callbacks=[keras.callbacks.BackupAndRestore('a')])\n")
    assert "StartTogether(0)," in restores
    assert not any("BroadcastGlobalVariablesCallback(0)" in line for line in restores)


def test_a_model_without_a_name() -> None:
    program = flat(KERAS + "def built():\n    model.compile('adam')\n    return model\nbuilt().fit(x, y)\n")
    assert "LearningRateWarmupCallback(initial_lr=0.001 * hvd.size() ** 0.5, warmup_epochs=0.25)," in program
    code = KERAS + "def built():\n    model.compile(keras.optimizers.Adam(rate))\n    return model\nbuilt().fit(x, y)\n"
    with pytest.raises(InvalidInput) as raised:
        explain(code, world_size=2)
    assert str(raised.value) == (
        "--explain must name the model to ask for its learning rate. Received: line 7: built().fit(...). Assign the "
        "model to a variable before fit."
    )


def test_only_the_first_fit_warms_up() -> None:
    again = "*([hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size() ** 0.5, warmup_epochs=0.25)] "
    again += "if model.optimizer.iterations.numpy() == 0 else []),"
    for code in (ADAM + FIT + FIT, ADAM + "for seed in range(3):\n    " + FIT, ADAM + "while True:\n    " + FIT):
        assert again in lines(code)
        assert rows(code)["learning rate"] == "0.001 -> 0.002 (sqrt) over 0.25 warm-up epochs of the first fit"
    # The first fit may end before it is warm.
    assert "WarmUp(hvd.size() ** 0.5, 3)," in lines(ADAM + FIT + FIT, warmup_epochs=3)


def test_comments_inside_the_call_stay() -> None:
    code = ADAM + (
        "model.fit(\n    x,  # features\n    y,\n    # as long as it takes\n    epochs=4,  # or more\n"
        "    callbacks=[\n        # mine\n        Mine(),  # counts\n    ],\n)\n"
    )
    program = written(code).program
    for comment in ("# features", "# as long as it takes", "# mine"):
        assert f"    {comment}\n" in program
    assert "epochs=4,  # or more\n" in program
    assert "Mine(),  # counts\n" in program


def test_one_rank_prints_and_saves() -> None:
    code = ADAM + (
        "model.fit(x, y, verbose=2)\nmodel.fit(x, y, verbose=0)\n"
        "p = model.predict(x)\nq = model.predict(x, verbose=0)\nmodel.save('a.keras')\nnp.save('a.npy', p)\n"
    )
    program = lines(code)
    assert "verbose=2 if hvd.rank() == 0 else 0," in program
    assert "verbose=0," in program
    assert "p = model.predict(x, verbose=1 if hvd.rank() == 0 else 0)" in program
    assert "q = model.predict(x, verbose=0)" in program
    at = program.index("model.save('a.keras')")
    assert program[at - 1] == "if hvd.rank() == 0:"
    assert program[at + 1] == "hvd.barrier()  # it is there before any rank continues"
    assert program[-1] == "np.save('a.npy', p)"


def test_a_callback_of_the_program_s_own_saves_on_one_rank() -> None:
    own = "class Mine(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None):\n"
    program = lines(ADAM + FIT + own + "        self.model.save('a.keras')\n")
    assert program[-2:] == ["if hvd.rank() == 0:", "self.model.save('a.keras')"]


def test_a_loaded_model_is_distributed() -> None:
    code = (
        ADAM + FIT + "m = keras.models.load_model('a.keras', mine)\nn = keras.saving.load_model('a', compile=False)\n"
    )
    program = lines(code)
    assert "m = hvd.load_model('a.keras', custom_objects=mine)" in program
    assert "n = keras.saving.load_model('a', compile=False)" in program
    # It may have been trained before.
    assert any(line.endswith("if model.optimizer.iterations.numpy() == 0 else []),") for line in program)


def test_what_sets_the_rate_before_each_step_comes_before_the_warm_up() -> None:
    own = "class Mine(keras.callbacks.Callback):\n    def on_{}(self, *_):\n        self.model.optimizer."
    own += "learning_rate = 1\n"
    fit = "model.fit(x, y, callbacks=[Mine()])\n"
    for hook, goes_first in (("train_batch_begin", "Mine(),"), ("epoch_end", "WarmUp(hvd.size() ** 0.5, 0.25),")):
        program = lines(ADAM + own.format(hook) + fit)
        first = next(line for line in program if line in ("Mine(),", "WarmUp(hvd.size() ** 0.5, 0.25),"))
        assert first == goes_first


def test_evaluate_is_over_all_ranks() -> None:
    code = ADAM + FIT + "loss = model.evaluate(a, b, batch_size=8)\n"
    assert "loss = evaluate_together(model, a, b, batch_size=8)" in lines(code)
    assert any(line.startswith("def evaluate_together(") for line in lines(code))
    own = "class Mine(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None):\n"
    code = ADAM + FIT + own + "        self.model.evaluate(a, b)\n"
    assert "self.model.evaluate(a, b)" in lines(code)


def test_layers_that_draw_or_normalise() -> None:
    plain = written(ADAM + FIT).program
    assert "OwnRandomNumbers" not in plain
    assert "AverageMovingStatistics" not in plain
    both = written(ADAM.replace("Dense(1)", "Dropout(0.1), keras.layers.BatchNormalization()") + FIT).program
    assert "    OwnRandomNumbers(),\n" in both
    assert "    AverageMovingStatistics(),\n" in both
    # The model is another cell's.
    assert "    OwnRandomNumbers(),\n" in written("model.compile('adam')\n" + FIT).program


def test_seeds() -> None:
    assert "random seed" not in rows(ADAM + FIT)
    code = "model.compile('adam')\n" + FIT
    assert rows(code)["random seed"] == "one for all ranks, as the program sets none"
    assert "keras.utils.set_random_seed(0)  # alike on all ranks, so that they shuffle alike" in lines(code)
    assert "import keras" in lines(code)


def test_imports_come_after_the_program_s_own() -> None:
    code = "from __future__ import annotations\nimport os\nos.environ['KERAS_BACKEND'] = 'tensorflow'\n" + ADAM + FIT
    program = lines(code)
    assert program[:6] == [
        "from __future__ import annotations",
        "import os",
        "os.environ['KERAS_BACKEND'] = 'tensorflow'",
        "import keras",
        "import horovod.tensorflow.keras as hvd",
        "import jupyter_ddl.data",
    ]
    assert program.count("import keras") == 1


def test_other_libraries_fit_too() -> None:
    code = (
        "from sklearn.preprocessing import StandardScaler\nimport re\nscaler = StandardScaler()\nscaler.fit(x)\n"
        "StandardScaler().fit(x)\npattern = re.compile('a')\n" + ADAM + FIT
    )
    program = lines(code)
    assert "scaler.fit(x)" in program
    assert "pattern = re.compile('a')" in program
    assert sum("jupyter_ddl.data.parts" in line for line in program) == 1


# --- what is not written out -----------------------------------------------------------------------------------

TAPE = "import tensorflow as tf\nwith tf.GradientTape() as tape:\n    loss = f(x)\n"
REFUSED = {
    "no Python": (
        "model.fit(\n",
        "A program must be valid Python 3 to be explained. Received: line 1: {}. Correct that line first.",
    ),
    "no fit": (
        KERAS + "model.compile('adam')\n",
        (
            "--explain writes out a program that trains with fit. Received: code without a call of fit. Pass the "
            "code that compiles the model and calls fit."
        ),
    ),
    "no compile": (
        KERAS + FIT,
        (
            "--explain must see which optimizer it is. Received: line 4: model.fit(...), and no compile. Put "
            "compile and fit in one cell. Run it with --auto, without --explain: nothing needs to be written out "
            "for that."
        ),
    ),
    "a loop": (
        TAPE,
        (
            "--explain writes out what trains with fit; a loop of the program's own must say itself which data "
            "and which gradients are whose. Received: line 2: tf.GradientTape(...). Give each rank its part of "
            "the data, and write hvd.DistributedGradientTape(tape); or put the step in a train_step of the model,"
            " and call fit."
        ),
    ),
    "train_on_batch": (
        ADAM + "model.train_on_batch(x, y)\n",
        (
            "--explain writes out what trains with fit. Received: line 5: model.train_on_batch(...). Run it with "
            "--auto, without --explain: nothing needs to be written out for that."
        ),
    ),
    "**kwargs": (
        ADAM + "model.fit(x, y, **options)\n",
        (
            "--explain must see what fit is given. Received: line 5: model.fit(x, y, **options). Write the "
            "arguments out in the call. Run it with --auto, without --explain: nothing needs to be written out "
            "for that."
        ),
    ),
    "Horovod": (
        "import horovod.tensorflow as hvd\n" + ADAM + FIT,
        (
            "--explain writes Horovod into a program that has none. Received: line 1: import horovod.tensorflow "
            "as hvd. Run it without --auto: it says itself how it is distributed."
        ),
    ),
    "ours": (
        "from jupyter_ddl import keras as hvd\n" + ADAM + FIT,
        (
            "--explain writes Horovod into a program that has none. Received: line 1: from jupyter_ddl import "
            "keras as hvd. Run it without --auto: it says itself how it is distributed."
        ),
    ),
    "tf.distribute": (
        TF + "with tf.distribute.MirroredStrategy().scope():\n    pass\n",
        (
            "--auto distributes a model that is not distributed yet. Received: line 2: "
            "tf.distribute.MirroredStrategy(...). Drop the strategy and its scope."
        ),
    ),
    "a stateful layer": (
        KERAS + "keras.layers.LSTM(4, stateful=True)\n",
        (
            "A stateful layer keeps a state for each sample of a batch, which must come to the same place each "
            "time. Received: line 4: keras.layers.LSTM(...). Pass stateful=False, or divide the sequences among "
            "the ranks yourself."
        ),
    ),
    "two optimizers": (
        KERAS + "gan.compile(d_optimizer='adam', g_optimizer='adam')\n",
        (
            "--auto distributes the one optimizer of compile: which data a second one is for, it cannot know. "
            "Received: line 4: gan.compile(d_optimizer=...). Write the program with hvd.DistributedGradientTape."
        ),
    ),
    "an optimizer from elsewhere": (
        KERAS + "model.compile(optimizer=args.optimizer)\n" + FIT,
        (
            "--explain must see which optimizer it is. Received: line 4: model.compile(...) with "
            "optimizer=args.optimizer. Write e.g. optimizer=keras.optimizers.Adam(1e-3) in this code; --auto "
            "without --explain takes any."
        ),
    ),
    "a string that Keras does not know": (
        KERAS + "model.compile('adamm')\n" + FIT,
        (
            "--explain must see which optimizer it is. Received: line 4: model.compile(...) with "
            "optimizer='adamm'. Write e.g. optimizer=keras.optimizers.Adam(1e-3) in this code; --auto without "
            "--explain takes any."
        ),
    ),
    "no data": (
        ADAM + "model.fit(epochs=2)\n",
        (
            "fit must be given data. Received: line 5: model.fit(...). Pass arrays, a tf.data.Dataset or a "
            "keras.utils.PyDataset."
        ),
    ),
    "data from elsewhere": (
        ADAM + "model.fit(data)\n",
        (
            "--explain must see what kind of data fit is given. Received: line 5: model.fit(...) with data, which"
            " is only known when it runs. Explain it together with the code that makes the data; --auto without "
            "--explain looks at them."
        ),
    ),
    "two factors, one warm-up": (
        KERAS + "model.compile('adam')\nmodel.optimizer.learning_rate = 1\nother.compile('sgd')\n" + FIT,
        (
            "--explain writes out one factor on the learning rate. Received: Adam and SGD. Pass --scale-lr, or "
            "explain one of them at a time."
        ),
    ),
    "validation_split in a condition": (
        ADAM + "if model.fit(x, y, validation_split=0.1):\n    pass\n",
        (
            "fit with validation_split must be in a statement of its own. Received: line 5: model.fit(...). Give it a "
            "line."
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_written_out(what: str) -> None:
    code, text = REFUSED[what]
    with pytest.raises(InvalidInput) as raised:
        explain(code, world_size=2)
    before, _, after = text.partition("{}")
    assert str(raised.value).startswith(before)
    assert str(raised.value).endswith(after)


def test_class_weight_of_batches_that_are_split() -> None:
    with pytest.raises(InvalidInput) as raised:
        explain(ADAM + "model.fit(ds, class_weight={0: 2.0})\n", world_size=2, batch="global")
    assert str(raised.value) == (
        "parts takes class_weight with arrays alone. Received: line 5: model.fit(...). Have the data yield sample "
        "weights as their third part."
    )


def test_a_tape_in_a_train_step_is_fine() -> None:
    step = "class Mine(keras.Model):\n    def train_step(self, data):\n        with tf.GradientTape() as tape:\n"
    assert "with tf.GradientTape() as tape:" in lines(TF + KERAS + step + "            pass\n" + ADAM + FIT)


def test_without_libcst(monkeypatch: pytest.MonkeyPatch) -> None:
    import jupyter_ddl.explain

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput) as raised:
        jupyter_ddl.explain.explain  # noqa: B018 (asking for it is what is tested)
    assert str(raised.value) == (
        "--explain takes libcst. Received: an environment without it. Run: pip install 'jupyter_ddl[modernise]'"
    )


def test_explaining_loads_nothing_heavy() -> None:
    program = (
        "import sys, json\nfrom jupyter_ddl.explain import explain\n"
        f"explain({ADAM + FIT!r}, world_size=2)\n"
        "print(json.dumps([name for name in ('tensorflow', 'keras', 'horovod', 'mpi4py') if name in sys.modules]))"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(child.stdout) == []
