"""`--explain`: the plan and the program that it makes of code, and the code that it does not write out."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from textwrap import dedent

import pytest
from explained import ADAM, FIT, KERAS, flat, lines, rows, written

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import explain, render
from jupyter_ddl.explain.calls import ARGUMENTS

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


def test_the_tables_of_arguments_are_keras_s_own() -> None:
    import keras

    for method, names in ARGUMENTS.items():
        found = [name for name in inspect.signature(getattr(keras.Model, method)).parameters if name != "self"]
        assert tuple(name for name in found if name != "kwargs") == names, method


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


def test_explaining_loads_nothing_heavy() -> None:
    program = (
        "import sys, json\nfrom jupyter_ddl.explain import explain\n"
        f"explain({ADAM + FIT!r}, world_size=2)\n"
        "print(json.dumps([name for name in ('tensorflow', 'keras', 'horovod', 'mpi4py') if name in sys.modules]))"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(child.stdout) == []
