"""%%distributed --auto: a model that such a cell has trained, in other cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from auto_cells import told_by

if TYPE_CHECKING:
    from ranks.kernel import Kernel

pytestmark = pytest.mark.mpi


# --- a model that an --auto cell has trained, in other cells ---------------------------------------------------

TRAINED = """
kept = made(keras.optimizers.SGD(0.5))
kept.fit(x, y, batch_size=8, epochs=1, verbose=0)
"""
BY_HAND = """
weights = kept.trainable_variables
kept.optimizer.apply([tf.ones_like(weight) for weight in weights], weights)
"""
WITH_AUTO = "A model that was trained with --auto exchanges its gradients, and trains on with --auto. Received: "
NEW_OPTIMIZER = "Call model.compile again with a new optimizer for a model of its own on each rank"
ELSEWHERE = {
    "fit": ("kept.fit(x, y, verbose=0)", "", "model.fit in a cell without it. Write %%distributed --auto. "),
    "fit with Horovod": (
        "import horovod.tensorflow as hvd\nhvd.init()\nkept.fit(x, y, verbose=0)",
        "",
        "model.fit in a cell without it. Write %%distributed --auto. ",
    ),
    "train_on_batch": ("kept.train_on_batch(x, y)", "", "model.train_on_batch in a cell without it. Write "),
    "by hand": (BY_HAND, "", "an update by SGD in a cell without it. Write %%distributed --auto. "),
    "independent": ("kept.fit(x, y, verbose=0)", "--independent", "model.fit in a cell with --independent. Call "),
    "one rank": ("kept.fit(x, y, verbose=0)", "-r 0", "model.fit in a cell without it. Write %%distributed --auto. "),
}


@pytest.fixture(scope="module")
def trained(prepared: Kernel) -> Kernel:
    assert prepared.run(TRAINED, "--auto").error is None
    return prepared


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_model_of_an_auto_cell_trains_on_with_auto(trained: Kernel, name: str) -> None:
    code, options, received = ELSEWHERE[name]
    told = told_by(trained.run(code, options))
    assert WITH_AUTO + received in told
    assert NEW_OPTIMIZER in told


def test_a_model_of_an_auto_cell_can_be_used_elsewhere(trained: Kernel) -> None:
    code = "kept.evaluate(x, y, verbose=0)[0], kept.predict(x, verbose=0).shape, kept.test_on_batch(x, y)[0] > 0"
    cell = trained.run(code)
    assert cell.error is None, cell.told
    assert len(cell.lines) == 1, "alike on all ranks"
    assert trained.run("kept.fit(x, y, verbose=0)", "--auto").error is None
    again = (
        "own = made(keras.optimizers.SGD(0.1 + rank))\nown.set_weights(kept.get_weights())\nown.fit(x, y, verbose=0)"
    )
    assert trained.run(again, "--independent").error is None


def test_a_loop_by_hand_is_refused_after_fit_as_before(trained: Kernel) -> None:
    told = told_by(trained.run(BY_HAND, "--auto"))
    assert "Received: an update by SGD outside of them. Put the step into a train_step of the model" in told


ENDS = """
class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == how:
            raise RuntimeError('this fit has ended')
try:
    kept.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Ends()])
except RuntimeError:
    pass
from jupyter_ddl.training.optimizer.distribution import _updating
_updating.set(True)
rate = float(tf.convert_to_tensor(kept.optimizer._get_current_learning_rate()))
_updating.set(False)
rate, float(kept.optimizer.learning_rate)
"""


@pytest.mark.parametrize("how", [1, 10**6])
def test_the_scaled_rate_ends_with_fit(trained: Kernel, how: int) -> None:
    cell = trained.run(f"how = {how}\n{ENDS}", "--auto")
    assert cell.error is None, cell.told
    assert "0.5 -> 1 (linear)" in cell.text
    assert cell.lines[-1].endswith("(0.5, 0.5)")
