"""`jupyter ddl modernise`: what each codemod writes, and what it leaves."""

from __future__ import annotations

import json
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli import main
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.modernise.rewrite import rewrite
from jupyter_ddl.protocol.old_spellings import ROWS
from jupyter_ddl.protocol.sklearn_names import H2O4GPU_LEFT, PAI4SK_LEFT

if TYPE_CHECKING:
    from pathlib import Path

TODAY = {row.name: row.today for row in ROWS}
HVD = "import horovod.tensorflow.keras as hvd\n"
NEW_HVD = "import jupyter_ddl.keras as hvd\n"
KERAS = "from tensorflow import keras\n"
TF = "import tensorflow as tf\n"

# What it was, and what it becomes.
PAIRS = {
    # --- imports
    "horovod.keras": ("import horovod.keras as hvd\nhvd.init()\n", NEW_HVD + "hvd.init()\n"),
    "horovod.tensorflow.keras": (HVD, NEW_HVD),
    "callbacks": (
        "from horovod.tensorflow.keras import callbacks, init  # both\n",
        "from jupyter_ddl.keras import callbacks, init  # both\n",
    ),
    "a callback": (
        "from horovod.keras.callbacks import MetricAverageCallback as M\n",
        "from jupyter_ddl.training.callbacks import MetricAverageCallback as M\n",
    ),
    "from horovod": ("from horovod import keras as hvd\n", "from jupyter_ddl import keras as hvd\n"),
    "from horovod.tensorflow": ("from horovod.tensorflow import keras\n", "from jupyter_ddl import keras\n"),
    # --- scikit-learn's other names
    "a class of H2O4GPU's": ("from h2o4gpu.solvers import KMeans\n", "from sklearn.cluster import KMeans\n"),
    "classes of H2O4GPU's": (
        "# fast\nfrom h2o4gpu.solvers import KMeans, Ridge as R, Lasso\nKMeans(3, n_gpus=1)\n",
        "# fast\nfrom sklearn.cluster import KMeans\nfrom sklearn.linear_model import Ridge as R, Lasso\nKMeans(3)\n",
    ),
    "h2o4gpu as sklearn": (
        "import h2o4gpu as sklearn\nk = sklearn.KMeans(3, backend='h2o4gpu')\n",
        "import sklearn\nk = sklearn.cluster.KMeans(3)\n",
    ),
    "H2O4GPU's tree": (
        "from h2o4gpu.model_selection import train_test_split\n",
        "from sklearn.model_selection import train_test_split\n",
    ),
    "classes of pai4sk's": (
        "from pai4sk import RandomForestClassifier as R, LogisticRegression as L\nL(num_threads=4, dual=True)\n",
        "from snapml import RandomForestClassifier as R, LogisticRegression as L\nL(n_jobs=4, dual=True)\n",
    ),
    "pai4sk whole": (
        "import pai4sk\nm = pai4sk.LinearRegression(return_training_history='full')\n",
        "import snapml\nm = snapml.LinearRegression(generate_training_history='full')\n",
    ),
    "pai4sk's tree": (
        "from pai4sk.cluster import KMeans\nKMeans(3, use_gpu=True)\n",
        "from sklearn.cluster import KMeans\nKMeans(3)\n",
    ),
    "daal4py": (
        "import daal4py.sklearn\ndaal4py.sklearn.patch_sklearn()\n",
        "import sklearnex\nsklearnex.patch_sklearn()\n",
    ),
    "from daal4py": (
        "from daal4py.sklearn import patch_sklearn\npatch_sklearn()\n",
        "from sklearnex import patch_sklearn\npatch_sklearn()\n",
    ),
    # --- optimizers
    "lr": (
        KERAS + "keras.optimizers.SGD(lr=0.1, momentum=.9)\n",
        KERAS + "keras.optimizers.SGD(learning_rate=0.1, momentum=.9)\n",
    ),
    "lr by its own name": (
        "from keras.optimizers import Adam\nAdam( lr = args.lr )  # args.lr stays\n",
        "from keras.optimizers import Adam\nAdam( learning_rate = args.lr )  # args.lr stays\n",
    ),
    "lr of a whole number": (
        HVD + KERAS + "keras.optimizers.Adadelta(1.0 * hvd.size())\nkeras.optimizers.Adadelta(lr=1 * hvd.size())\n",
        NEW_HVD
        + KERAS
        + "keras.optimizers.Adadelta(1.0 * hvd.size())\n"
        + "keras.optimizers.Adadelta(learning_rate=float(1 * hvd.size()))\n",
    ),
    "whole numbers": (
        KERAS + "keras.optimizers.SGD(1, momentum=0, nesterov=False)\n",
        KERAS + "keras.optimizers.SGD(1.0, momentum=0.0, nesterov=False)\n",
    ),
    "decay": (
        KERAS + "opt = keras.optimizers.SGD(lr=0.01, decay=1e-6, momentum=0.9)\n",
        KERAS
        + "opt = keras.optimizers.SGD("
        + "learning_rate=keras.optimizers.schedules.InverseTimeDecay(0.01, decay_steps=1, decay_rate=1e-6), "
        + "momentum=0.9)\n",
    ),
    "decay of a rate that may be whole": (
        KERAS + "keras.optimizers.Adam(rate, decay=rate / 10)\n",
        KERAS + "keras.optimizers.Adam("
        "keras.optimizers.schedules.InverseTimeDecay(float(rate), decay_steps=1, decay_rate=rate / 10))\n",
    ),
    "decay of the default rate": (
        KERAS + "keras.optimizers.RMSprop(\n    decay=1e-6,\n)\n",
        KERAS + "keras.optimizers.RMSprop(\n"
        "    learning_rate=keras.optimizers.schedules.InverseTimeDecay(0.001, decay_steps=1, decay_rate=1e-6),\n)\n",
    ),
    "no decay": (KERAS + "keras.optimizers.SGD(0.1, decay=0.0)\n", KERAS + "keras.optimizers.SGD(0.1)\n"),
    "epsilon=None": (
        KERAS + "keras.optimizers.Adam(beta_1=0.9, epsilon=None, amsgrad=False)\n",
        KERAS + "keras.optimizers.Adam(beta_1=0.9, amsgrad=False)\n",
    ),
    "old classes": (
        KERAS + "keras.optimizers.legacy.SGD(0.1)\nkeras.optimizers.sgd(0.1)\nkeras.optimizers.experimental.Adam()\n",
        KERAS + "keras.optimizers.SGD(0.1)\nkeras.optimizers.SGD(0.1)\nkeras.optimizers.Adam()\n",
    ),
    "optimizer.lr": (
        "model.optimizer.lr = 0.1\nprint(opt.lr, args.lr)\n",
        "model.optimizer.learning_rate = 0.1\nprint(opt.learning_rate, args.lr)\n",
    ),
    "an optimizer under any name": (
        KERAS + "x = keras.optimizers.SGD(0.1)\nprint(x.lr)\n",
        KERAS + "x = keras.optimizers.SGD(0.1)\nprint(x.learning_rate)\n",
    ),
    "optimizer.variables()": (
        "hvd.broadcast_variables(opt.variables(), root_rank=0)\nmodel.variables()\n",
        "hvd.broadcast_variables(opt.variables, root_rank=0)\nmodel.variables()\n",
    ),
    # --- compile and fit
    "experimental_run_tf_function": (
        (
            "model.compile(loss='mse',\n              optimizer=opt,\n              metrics=['mae'],\n"
            "              experimental_run_tf_function=False)\n"
        ),
        "model.compile(loss='mse',\n              optimizer=opt,\n              metrics=['mae'])\n",
    ),
    "one metric": ("model.compile('sgd', 'mse', metrics='mae')\n", "model.compile('sgd', 'mse', metrics=['mae'])\n"),
    "metrics as third": (
        "model.compile('sgd', 'mse', ['accuracy'])\n",
        "model.compile('sgd', 'mse', metrics=['accuracy'])\n",
    ),
    "fit_generator": (
        "model.fit_generator(data, 100, epochs=2, workers=4, use_multiprocessing=True, max_queue_size=20)\n",
        "model.fit(data, steps_per_epoch=100, epochs=2)\n",
    ),
    "generator=": (
        "model.fit_generator(generator=data, steps_per_epoch=100 // hvd.size())\n",
        "model.fit(x=data, steps_per_epoch=100 // hvd.size())\n",
    ),
    "evaluate_generator": ("model.evaluate_generator(data, 10, workers=2)\n", "model.evaluate(data, steps=10)\n"),
    "predict_generator": ("model.predict_generator(data)\n", "model.predict(data)\n"),
    "workers": ("model.fit(data, workers=4, epochs=2)\n", "model.fit(data, epochs=2)\n"),
    "nb_epoch": ("model.fit(x, y, nb_epoch=3)\n", "model.fit(x, y, epochs=3)\n"),
    # --- sessions
    "a session": (
        TF
        + "from keras import backend as K\n"
        + HVD
        + dedent(
            """
            hvd.init()

            # Horovod: pin GPU to be used to process local rank (one GPU per process)
            config = tf.ConfigProto()
            config.gpu_options.allow_growth = True
            config.gpu_options.visible_device_list = str(hvd.local_rank())
            K.set_session(tf.Session(config=config))

            # The data
            x = tf.zeros(3)
            """
        ),
        TF + NEW_HVD + "\nhvd.init()\n\n# The data\nx = tf.zeros(3)\n",
    ),
    "a session of tf.compat.v1": (
        TF
        + "x = tf.zeros(3)\nconfig = tf.compat.v1.ConfigProto()\nconfig.gpu_options.allow_growth = True\n"
        + "sess = tf.compat.v1.Session(config=config)\ntf.compat.v1.keras.backend.set_session(sess)\n",
        TF + "x = tf.zeros(3)\n",
    ),
    "eager execution": (TF + "tf.enable_eager_execution()\nx = tf.zeros(3)\n", TF + "x = tf.zeros(3)\n"),
    "gpus[hvd.local_rank()]": (
        TF
        + HVD
        + dedent(
            """
            gpus = tf.config.experimental.list_physical_devices('GPU')
            for gpu in gpus:
                tf.config.experimental.set_memory_growth(gpu, True)
            if gpus:
                tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')
            x = tf.zeros(hvd.size())
            """
        ),
        TF + NEW_HVD + "\nx = tf.zeros(hvd.size())\n",
    ),
    "in a function": (
        TF + "def set_up():\n    tf.enable_eager_execution()\n\nset_up()\ntf.zeros(3)\n",
        TF + "def set_up():\n    pass\n\nset_up()\ntf.zeros(3)\n",
    ),
    # --- names in logs
    "acc": (
        KERAS
        + "model.compile('sgd', 'mse', metrics=['acc', 'mae'])\n"
        + "keras.callbacks.EarlyStopping(monitor='val_acc')\n"
        + "history.history['acc'], history.history[\"val_acc\"], logs.get('val_acc'), table['acc']\n",
        KERAS
        + "model.compile('sgd', 'mse', metrics=['accuracy', 'mae'])\n"
        + "keras.callbacks.EarlyStopping(monitor='val_accuracy')\n"
        + "history.history['accuracy'], history.history[\"val_accuracy\"], logs.get('val_accuracy'), table['acc']\n",
    ),
    "acc in file names": (
        KERAS
        + "path = 'w-{epoch:02d}-{val_acc:.2f}.keras'\nkeras.callbacks.ModelCheckpoint(path, monitor='val_acc')\n",
        KERAS
        + "path = 'w-{epoch:02d}-{val_accuracy:.2f}.keras'\n"
        + "keras.callbacks.ModelCheckpoint(path, monitor='val_accuracy')\n",
    ),
    "lr in logs": ("plot(history.history['lr'])\n", "plot(history.history['learning_rate'])\n"),
    # --- backend
    "get_value": (
        KERAS + "K = keras.backend\nkeras.backend.set_value(opt.lr, keras.backend.get_value(opt.lr) * 2)\n",
        KERAS + "K = keras.backend\nopt.learning_rate.assign(opt.learning_rate.numpy() * 2)\n",
    ),
    # --- collectives
    "average=True": (
        HVD
        + "hvd.allreduce(x, average=True, name='x')\nhvd.allreduce(x, average=False)\nhvd.allreduce(x, average=a)\n",
        NEW_HVD
        + "hvd.allreduce(x, op=hvd.Average, name='x')\nhvd.allreduce(x, op=hvd.Sum)\n"
        + "hvd.allreduce(x, op=hvd.Average if a else hvd.Sum)\n",
    ),
    "average=True in a custom loop": (
        "import horovod.tensorflow as hvd\nhvd.allreduce(x, average=True)\n",
        "import horovod.tensorflow as hvd\nhvd.allreduce(x, op=hvd.Average)\n",
    ),
    # --- callbacks
    "warm-up": (
        HVD
        + KERAS
        + "opt = keras.optimizers.SGD(lr=0.1 * hvd.size())\n"
        + "hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=5, verbose=1)\n",
        NEW_HVD
        + KERAS
        + "opt = keras.optimizers.SGD(learning_rate=0.1 * hvd.size())\n"
        + "hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=5, verbose=1, initial_lr=0.1 * hvd.size())\n",
    ),
    "warm-up on lines": (
        HVD
        + KERAS
        + "rate = 0.1 * hvd.size()\nopt = keras.optimizers.SGD(rate)\ncallbacks = [\n"
        + "    hvd.callbacks.LearningRateWarmupCallback(\n        warmup_epochs=5,\n        verbose=1,\n    ),\n]\n",
        NEW_HVD
        + KERAS
        + "rate = 0.1 * hvd.size()\nopt = keras.optimizers.SGD(rate)\ncallbacks = [\n"
        + "    hvd.callbacks.LearningRateWarmupCallback(\n        warmup_epochs=5,\n        verbose=1,\n"
        + "        initial_lr=rate,\n    ),\n]\n",
    ),
    "warm-up of a rate that is not found": (
        NEW_HVD + "if 1:\n    callbacks = [hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=5)]\n",
        NEW_HVD
        + "if 1:\n    # Pass initial_lr too: the learning rate that the optimizer was made with.\n"
        + "    callbacks = [hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=5)]\n",
    ),
    "period=1": (
        KERAS + "keras.callbacks.ModelCheckpoint('x.keras', period=1, verbose=1)\n",
        KERAS + "keras.callbacks.ModelCheckpoint('x.keras', verbose=1)\n",
    ),
    "epsilon of a plateau": (
        KERAS + "keras.callbacks.ReduceLROnPlateau(epsilon=1e-4)\n",
        KERAS + "keras.callbacks.ReduceLROnPlateau(min_delta=1e-4)\n",
    ),
    # --- modules
    "layers": (
        "from keras.layers.core import Dense, Dropout\nfrom tensorflow.keras.layers.normalization import X\n",
        "from keras.layers import Dense, Dropout\nfrom tensorflow.keras.layers import X\n",
    ),
    "engine": (
        "from keras.engine.topology import Layer\nfrom keras.engine.training import Model\n",
        "from keras.layers import Layer\nfrom keras.models import Model\n",
    ),
    "np_utils": (
        "from keras.utils import np_utils\ny = np_utils.to_categorical(y, 10)\n",
        "from keras.utils import to_categorical\ny = to_categorical(y, 10)\n",
    ),
    "to_categorical": (
        "from keras.utils.np_utils import to_categorical\n",
        "from keras.utils import to_categorical\n",
    ),
    "np_utils in full": (
        "import keras\ny = keras.utils.np_utils.to_categorical(y, 10)\n",
        "import keras\ny = keras.utils.to_categorical(y, 10)\n",
    ),
    "ImageDataGenerator": (
        "from keras.preprocessing.image import ImageDataGenerator\n",
        "from tensorflow.keras.preprocessing.image import ImageDataGenerator\n",
    ),
}

# What stays, and what is told of it.
LEFT = {
    "a name of H2O4GPU's own": ("import numpy\nfrom h2o4gpu import DAAL_SUPPORTED\n", H2O4GPU_LEFT),
    "a class of pai4sk's that has another name": ("\nfrom pai4sk import BoostingMachine\n", PAI4SK_LEFT),
    "pai4sk whole, asked for another name": (
        "\nimport pai4sk\npai4sk.LogisticRegression()\npai4sk.BoostingMachine()\n",
        PAI4SK_LEFT,
    ),
    "decay under a callback": (
        KERAS + "keras.optimizers.SGD(0.1, decay=1e-6)\nkeras.callbacks.ReduceLROnPlateau()\n",
        TODAY["decay"],
    ),
    "period": (KERAS + "keras.callbacks.ModelCheckpoint('x.keras', period=5)\n", TODAY["period"]),
    "a session that is used": (TF + "s = tf.Session()\ns.run(x)\n", TODAY["Session"]),
    "samples_per_epoch": ("\nmodel.fit_generator(data, samples_per_epoch=60000)\n", TODAY["samples_per_epoch"]),
    "predict_classes": ("\nmodel.predict_classes(x)\n", TODAY["predict_classes"]),
    "backend functions": ("from keras import backend as K\nK.mean(x)\n", TODAY["backend functions"]),
    "average= of a bare function": (
        "from horovod.tensorflow import allreduce\nallreduce(x, average=True)\n",
        "hvd.allreduce(x, average=True) is written hvd.allreduce(x, op=hvd.Average).",
    ),
}

# What only looks old.
UNTOUCHED = {
    "another library's lr": "import torch\ntorch.optim.SGD(lr=0.1)\nargs.lr\nscheduler.lr\n",
    "re.compile": "import re\nre.compile('a', re.I)\n",
    "a metric of its own called acc": (
        "def acc(a, b): ...\nmodel.compile('sgd', 'mse', metrics=[acc])\nhistory.history['acc']\n"
    ),
    "what the program logs itself": "logs['lr'] = rate\nlogs['acc'] = x\nprint(history.history['lr'], logs['acc'])\n",
    "horovod.tensorflow": "import horovod.tensorflow as hvd\nhvd.DistributedGradientTape(tape)\n",
    "a hidden GPU": TF + "tf.config.set_visible_devices([], 'GPU')\n",
    "a list of GPUs that is used": TF + "gpus = tf.config.list_physical_devices('GPU')\nprint(len(gpus))\n",
    "an image": "from keras.preprocessing.image import load_img\n",
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_old_spelling_is_rewritten(name: str) -> None:
    before, after = PAIRS[name]
    rewritten = rewrite(before, "program.py")
    assert rewritten.code == after
    assert rewrite(after, "program.py").code == after


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_rewritten_is_told(name: str) -> None:
    before, today = LEFT[name]
    rewritten = rewrite(before, "program.py")
    assert rewritten.code == before
    assert [(leftover.line, leftover.today) for leftover in rewritten.leftovers] == [(2, today)]


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_only_looks_old_stays(name: str) -> None:
    rewritten = rewrite(UNTOUCHED[name], "program.py")
    assert rewritten.code == UNTOUCHED[name]
    assert not rewritten.leftovers


def test_a_syntax_error_is_told_with_its_line() -> None:
    with pytest.raises(InvalidInput, match=r"valid Python 3 .* Received: old.py, line 2: .* Correct that line first"):
        rewrite("x = 1\nprint 'a'\n", "old.py")


def test_a_rate_that_must_be_passed_is_told_too() -> None:
    before, after = PAIRS["warm-up of a rate that is not found"]
    (leftover,) = rewrite(before, "program.py").leftovers
    assert after.splitlines()[leftover.line - 1].endswith("LearningRateWarmupCallback(warmup_epochs=5)]")
    assert "take initial_lr: pass the learning rate that the optimizer was made with." in leftover.today


# --- files ----------------------------------------------------------------------------------------------------


def test_a_diff_is_printed_and_the_file_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    before = TF + "tf.enable_eager_execution()\nmodel.fit(x, workers=2)  # now\nmodel.predict_classes(x)\n"
    path.write_text(before)
    assert main(["modernise", str(path)]) == 0
    assert path.read_text() == before
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [f"--- {path}", f"+++ {path}"]
    assert "-model.fit(x, workers=2)  # now" in printed
    assert "+model.fit(x)  # now" in printed
    # The line of the file as it is.
    assert printed[-2:] == ["Not rewritten:", f"{path}, line 4: {TODAY['predict_classes']}"]


def test_the_file_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_bytes("# -*- coding: latin-1 -*-\r\n# é\r\nmodel.fit(x, workers=2)\r\n".encode("latin-1"))
    assert main(["modernise", "--write", str(path)]) == 0
    assert path.read_bytes() == "# -*- coding: latin-1 -*-\r\n# é\r\nmodel.fit(x)\r\n".encode("latin-1")
    assert main(["modernise", "--write", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: rewritten\n{path}: nothing to rewrite\n"


def cell(*lines: str, kind: str = "code") -> dict[str, object]:
    source = [f"{line}\n" for line in lines[:-1]] + list(lines[-1:])
    outputs = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source, **outputs}


def test_a_notebook_is_rewritten_as_one_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [
        cell("%load_ext jupyter_ddl", "!pip install x \\", "  y", "%ddl start -n 2"),
        cell("import horovod.keras as hvd is in the next cell", kind="markdown"),
        cell(
            "%%distributed --timeout 5", "import tensorflow as tf", "import horovod.keras as hvd", "files = !ls", "hvd?"
        ),
        cell("%%bash", "model.fit(x, workers=2)"),
        cell("%%distributed", "", "if True:", "    %matplotlib inline", "    opt = tf.keras.optimizers.SGD(lr=0.1)"),
        cell("print 'Python 2'"),
        cell(),
        cell("model.predict_classes(x)", "# the end"),
    ]
    notebook = {"cells": cells, "metadata": {"name": "é"}, "nbformat": 4, "nbformat_minor": 5}
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    before = path.read_text()
    assert main(["modernise", str(path)]) == 0
    printed = capsys.readouterr().out
    assert f"--- {path}, code cell 2" in printed
    assert printed.endswith(
        f"{path}, code cell 5: This cell is left as it is: its line 1 is no valid Python 3.\n"
        f"{path}, code cell 7, line 1: {TODAY['predict_classes']}\n"
    )
    assert path.read_text() == before
    assert main(["modernise", "--write", str(path)]) == 0
    wanted = before.replace("import horovod.keras as hvd\\n", "import jupyter_ddl.keras as hvd\\n")
    assert path.read_text() == wanted.replace("SGD(lr=", "SGD(learning_rate=")


# --- bad input ------------------------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["modernise", *arguments]) == 1
    return capsys.readouterr().err


def test_bad_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "A file to rewrite must exist. Received: nowhere.py." in told(capsys, "nowhere.py")
    (tmp_path / "a.txt").touch()
    assert "is a Python program or a notebook. Received:" in told(capsys, str(tmp_path / "a.txt"))
    (tmp_path / "a.ipynb").write_text("{}")
    assert "An .ipynb file must be a notebook. Received:" in told(capsys, str(tmp_path / "a.ipynb"))
    (tmp_path / "a.ipynb").write_text('{"nbformat": 3, "worksheets": []}')
    assert "must be of format 4. Received:" in told(capsys, str(tmp_path / "a.ipynb"))


def test_without_libcst_its_remedy_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").touch()
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert "takes libcst. Received: an environment without it. Run: pip install 'jupyter_ddl[modernise]'" in told(
        capsys, str(tmp_path / "a.py")
    )
