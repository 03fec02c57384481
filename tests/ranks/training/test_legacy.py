"""Old spellings on Keras 3: what legacy_checks found in one process with them, and in one without.

Every row of the table has its check, which asserts what the spelling means; without us Keras refuses it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_ddl.protocol.old_spellings import ROWS

# One process makes some sixty small models: 40 s where the cores are free.
pytestmark = pytest.mark.timeout(600)

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
# What works without us where there is no GPU, or is no more than a thing left alone.
NOT_REFUSED = {"gpus[hvd.local_rank()]"}
PHASE = (
    "Leave set_learning_phase out: fit trains, evaluate and predict do not. For a part of a model that must not train, "
    "write layer.trainable = False, or call it with training=False."
)
GONE = "Keras 3 has not every name of Keras 2. Received: keras"
REFUSALS = {
    "target_tensors": "InvalidInput: Keras 3 takes targets from the data that fit is given. Received: "
    "target_tensors=[1]. Pass them to fit, as y or in a tf.data.Dataset.",
    "reset_metrics=False": "InvalidInput: train_on_batch and test_on_batch of Keras 3 report their own batch alone. "
    "Received: reset_metrics=False. Leave it out, and average what they return.",
    "samples_per_epoch with a plain generator": "InvalidInput: An epoch is counted in batches. Received: "
    "samples_per_epoch=64, with a generator that does not tell its batch_size. Pass steps_per_epoch (or "
    "validation_steps), the samples divided by the batch size.",
    "fit within a graph": "InvalidInput: Keras 3 trains eagerly. Received: tf.compat.v1.disable_eager_execution() or "
    "disable_v2_behavior() was called, or fit inside a tf.Graph. Leave that call out; in a notebook, restart the ranks "
    "too.",
    "weights of a model that is not built": "InvalidInput: A model's weights must exist before they are saved. "
    "Received: save_weights('w') of a model that is not built. Call model.build(input_shape) first, or save after fit.",
    "a checkpoint of Keras 2": "InvalidInput: Keras 3 does not read the TensorFlow checkpoints of Keras 2. Received: "
    "load_weights('old'). Load it with the Keras that wrote it, and save it as .weights.h5 or .h5.",
    "a fixed loss scale": "InvalidInput: Keras 3 scales the loss of mixed_float16 dynamically. Received: "
    "loss_scale=128. Pass 'dynamic'; or leave mixed_float16, and pass loss_scale_factor to the optimizer.",
    "learning phase 2": f"InvalidInput: A learning phase is 0 or 1. Received: set_learning_phase(2). {PHASE}",
    "fit in learning phase 0": "InvalidInput: In Keras 3 no switch says whether layers train. Received: fit after "
    f"K.set_learning_phase(0). {PHASE}",
    "a switch of the learning phase": "InvalidInput: In Keras 3 no switch says whether layers train. Received: "
    f"set_learning_phase(1) after set_learning_phase(0). {PHASE}",
    "set_value of a number": "InvalidInput: K.set_value sets a variable. Received: the number 0.9. Set the attribute "
    "itself, e.g. optimizer.momentum = 0.9, before compile.",
    "K.function with updates": "InvalidInput: K.function computes and changes nothing in Keras 3. Received: updates. "
    "Write the change in a train_step or a tf.function.",
    "a layer that is gone": f"ImportError: {GONE}.layers.LocallyConnected2D. Use Conv1D or Conv2D. Install tf_keras "
    "and set TF_USE_LEGACY_KERAS=1 for the whole program.",
    "a module that is gone": f"ImportError: {GONE}.estimator. Train with model.fit.",
    "an attribute that is gone": f"AttributeError: {GONE}.layers.experimental.SyncBatchNormalization. Use "
    "keras.layers.BatchNormalization, which normalises by the rank's own part of a batch.",
    "learning_phase_scope": "InvalidInput: In Keras 3 no switch says whether layers train. Received: "
    "learning_phase_scope(1). Call the model with training=True.",
    "a placeholder of no shape": "InvalidInput: A placeholder has a shape. Received: shape=None and ndim=None. Pass "
    "one of the two.",
    "layers without a dtype": "InvalidInput: Layers of Keras 3 have a dtype policy. Received: "
    "disable_v2_dtype_behavior(). Leave it out; pass dtype= to the layers that need another.",
    "a function of TensorFlow that files do not name": "InvalidInput: A model's file names functions of TensorFlow "
    "that compute, such as tf.concat. Received: io.encode_base64. Write that step in a layer of your own; or save the "
    "weights alone.",
    "schedule_decay": "InvalidInput: Nadam's momentum schedule cannot be chosen in Keras 3. Received: schedule_decay. "
    "Leave it out, or take Adam.",
}
# Keras's and TensorFlow's own words still tell what is plainly wrong.
THEIR_WORDS = {
    "time_major": "ValueError: Unrecognized keyword arguments passed to LSTM: {'time_major': True}",
    "a file that is not there": "ValueError: File not found: filepath=nowhere.keras.",
    "a function of TensorFlow on what is wrong": "ValueError: Can't convert non-rectangular Python sequence to Tensor.",
    "a function that the program does not have": "TypeError: <class 'keras.src.models.functional",
    "a Lambda's code in a file": "ValueError: Requested the deserialization of a `Lambda` layer",
    "a wrong learning rate is Keras's to refuse": "ValueError: Argument `learning_rate` should be float",
    "an unknown argument of fit": "TypeError: got an unexpected keyword argument 'speed'",
    "a name that Keras never had": "ImportError: cannot import name 'NoSuchLayer' from 'keras.layers.core'",
    "a name that TensorFlow never had": "AttributeError: module 'tensorflow' has no attribute 'no_such_name'",
    "a device that is not there": "ValueError: Unrecognized device: PhysicalDevice(",
}


def findings(folder: Path, legacy: str) -> dict[str, Any]:
    """Run the checks in a process of their own."""
    environment = {
        **os.environ,
        "JUPYTER_DDL_LEGACY": legacy,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), str(HERE), os.environ.get("PYTHONPATH")])),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_NUM_INTRAOP_THREADS": "1",
    }
    child = subprocess.run(
        [sys.executable, "-m", "legacy_checks", "answers.json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-4000:]
    found: dict[str, Any] = json.loads((folder / "answers.json").read_text())
    return {**found, "stderr": child.stderr}


@pytest.fixture(scope="module")
def with_us(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return findings(tmp_path_factory.mktemp("with"), "1")


@pytest.fixture(scope="module")
def without_us(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return findings(tmp_path_factory.mktemp("without"), "0")


@pytest.mark.parametrize("row", [row.name for row in ROWS])
def test_an_old_spelling_works_and_says_so(row: str, with_us: dict[str, Any]) -> None:
    found = with_us["rows"][row]
    assert found["error"] is None
    assert found["said"]


def test_and_so_do_its_neighbours(with_us: dict[str, Any]) -> None:
    rows = {row.name for row in ROWS}
    assert {name: found["error"] for name, found in with_us["rows"].items() if name not in rows} == {
        name: None for name in with_us["rows"] if name not in rows
    }


@pytest.mark.slow
@pytest.mark.parametrize("row", [row.name for row in ROWS if row.name not in NOT_REFUSED])
def test_without_us_it_fails(row: str, without_us: dict[str, Any]) -> None:
    assert without_us["rows"][row]["error"] is not None
    assert set(without_us["said"]) <= NOT_REFUSED


@pytest.mark.slow
def test_what_works_without_us_is_left_alone(without_us: dict[str, Any]) -> None:
    alone = ("layers: described as before", "modules: the real ones stay", "optimizers: others are left alone")
    assert {name: without_us["rows"][name]["error"] for name in alone} == dict.fromkeys(alone)


def test_each_sentence_is_printed_once(with_us: dict[str, Any]) -> None:
    printed = [line for line in with_us["stderr"].splitlines() if line.startswith("Old spelling: ")]
    assert sorted(printed) == sorted(f"Old spelling: {row.today}" for row in ROWS)


def test_installing_imports_nothing(with_us: dict[str, Any]) -> None:
    assert with_us["loaded early"] == []


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_mean_the_same_is_an_error(name: str, with_us: dict[str, Any]) -> None:
    assert with_us["refusals"][name] == REFUSALS[name]


@pytest.mark.parametrize("name", THEIR_WORDS)
def test_what_is_wrong_is_theirs_to_refuse(name: str, with_us: dict[str, Any]) -> None:
    assert with_us["refusals"][name].startswith(THEIR_WORDS[name])


def test_every_refusal_is_looked_at(with_us: dict[str, Any]) -> None:
    assert with_us["refusals"].keys() == {**REFUSALS, **THEIR_WORDS}.keys()
