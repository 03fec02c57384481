"""`--explain`: what it does not write out, and what it says instead."""

from __future__ import annotations

import importlib.util

import pytest
from explained import ADAM, FIT, KERAS, TF, lines

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import explain

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
