"""Programs of Horovod's Keras API where Keras is on JAX: each rank's own arrays, and exchanges within the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from frameworks import test_keras_torch_horovod as torchs
from frameworks.test_keras_torch_horovod import ALONE, BEGIN, FAILS, FIT, message, weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

GRADIENTS = """
import jax
hvd.broadcast_variables(model.variables, root_rank=0)
@jax.jit
def gradients(weights, inputs, targets):
    def loss(weights):
        outputs, _ = model.stateless_call(weights, [], inputs)
        return ((outputs - targets) ** 2).mean()
    return jax.grad(loss)(weights)
"""
LOOP = """
trained = model.trainable_variables
for start in range(0, 48, 8):
    rows = slice(start, start + 8)
    optimizer.apply(gradients([each.value for each in trained], x[part][rows], y[part][rows]), trained)
"""
OWN_STEP = """
import jax
keras.utils.set_random_seed(3 + hvd.rank())
class Own(keras.Sequential):
    def train_step(self, state, data):
        trained, others, of_optimizer, metrics = state
        inputs, targets = data[:2]
        def loss(trained, others):
            outputs, others = self.stateless_call(trained, others, inputs, training=True)
            return ((outputs - targets) ** 2).mean(), others
        (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(trained, others)
        trained, of_optimizer = self.optimizer.stateless_apply(of_optimizer, gradients, trained)
        return {"loss": value}, (trained, others, of_optimizer, metrics)
model = Own([keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9)))
"""


@pytest.fixture
def pair(keras_jax_ranks: Callable[[int], Session]) -> Session:
    return keras_jax_ranks(2)


def test_horovods_program_on_jax_trains_as_one_process_with_the_global_batch(pair: Session) -> None:
    first, second = weights(pair, BEGIN + FIT)
    third, _ = weights(pair, BEGIN.replace("+ hvd.rank()", "") + ALONE, independent=True)
    assert np.array_equal(first, second)
    assert np.abs(first - third).max() < 1e-5
    # A train_step of the program's own does the same.
    fourth, fifth = weights(pair, BEGIN + OWN_STEP + FIT)
    assert np.array_equal(fourth, fifth)
    assert np.abs(first - fourth).max() < 1e-5


def test_the_callbacks_of_horovod_on_jax(pair: Session) -> None:
    torchs.test_the_callbacks_of_horovod(pair)


def test_collectives_over_jax(pair: Session) -> None:
    torchs.test_collectives(pair)
    pair.run(
        """
import jax.numpy as jnp
ones = jnp.ones(3) * rank
found = [
    hvd.allreduce(ones), hvd.allreduce(ones + 1, op=hvd.Product), hvd.broadcast(ones, 1), hvd.allgather(ones),
    hvd.allreduce(np.arange(2) + 2**40, op=hvd.Sum), hvd.allreduce(ones.astype("bfloat16"), op=hvd.Max),
]
found = [np.asarray(each, "float64").tolist() for each in found]
""",
        timeout_s=100,
    )
    first, second = pair.pull("found").values()
    assert first == second == [[0.5] * 3, [2] * 3, [1] * 3, [0] * 3 + [1] * 3, [2**41, 2**41 + 2], [1] * 3]


@pytest.mark.slow
def test_sums_of_float16_on_four_ranks_are_whole(keras_jax_ranks: Callable[[int], Session]) -> None:
    """Each of the first four lost all but one summand in JAX's own sum (jax 0.10.2)."""
    code = """
import jax.numpy as jnp, numpy as np
import jupyter_ddl.keras as hvd
hvd.init()
parts = np.zeros((4, 32), "float16")
parts[:, :4] = np.transpose([
    [13936, 0.8667, 1144, 4.68],
    [14440, 15000, 16.98, 2.406],
    [0.8252, 15000, 0.0607, 732],
    [9248, 0.1592, -0.405, 3318],
])
every = [jnp.asarray(np.roll(parts, i, axis=1)[rank]) for i in range(29)]
sums = [np.roll(np.asarray(hvd.allreduce(one, op=hvd.Sum)), -i) for i, one in enumerate(every)]
whole = parts.astype("float64").sum(0)[:4]
worst = float(np.abs(np.array(sums, "float64")[:, :4] / whole - 1).max())
"""
    session = keras_jax_ranks(4)
    session.run(code, timeout_s=100)
    assert max(session.pull("worst").values()) < 1e-3


def test_ranks_of_jax_with_other_numbers_and_sizes_of_batches_end_together(pair: Session) -> None:
    uneven = "part = slice(0, 21) if hvd.rank() == 0 else slice(21, None)\n"
    first, second = weights(pair, BEGIN + uneven + FIT.replace("epochs=2", "epochs=3"))
    assert np.array_equal(first, second)
    # Each step's gradient is that of all samples of the step.
    alone = """
model = made()
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
keras.utils.set_random_seed(3)
model.set_weights(made().get_weights())
for epoch in range(3):
    for start in range(0, 75, 8):
        own, other = np.arange(start, min(start + 8, 21)), np.arange(21 + start, min(start + 29, 96))
        rows = np.concatenate([own, other])
        model.train_on_batch(x[rows], y[rows])
"""
    third, _ = weights(pair, BEGIN.replace("+ hvd.rank()", "") + alone, independent=True)
    assert np.abs(first - third).max() < 1e-5


def test_one_rank_saves_evaluates_and_predicts_on_jax(pair: Session, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    logs = f"[broadcast] + ([keras.callbacks.CSVLogger({str(tmp_path / 'log.csv')!r})] if hvd.rank() == 0 else [])"
    alone = f"""
if hvd.rank() == 0:
    model.save({str(path)!r})
    model.evaluate(x, y, verbose=0)
hvd.barrier()
loaded = hvd.load_model({str(path)!r})
same = np.array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
loaded.fit(x[part], y[part], batch_size=8, verbose=0)
checksum = hvd.check_in_sync(loaded)
"""
    pair.run(BEGIN + FIT.replace("[broadcast]", logs) + alone, timeout_s=100)
    assert pair.pull("same") == {0: True, 1: True}
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3


def test_a_loop_of_the_programs_own_on_jax(pair: Session) -> None:
    first, second = weights(pair, BEGIN + GRADIENTS + LOOP)
    assert np.array_equal(first, second)
    result = pair.run(BEGIN + GRADIENTS + LOOP.replace("[part]", ""), timeout_s=100)
    assert result.ranks[0].stderr.count("WARNING: the 2 ranks train on the same batches") == 1


def test_ranks_of_jax_that_begin_apart_or_have_the_same_batches(pair: Session) -> None:
    told = message(pair, BEGIN + FIT.replace("[broadcast]", "[]"))
    assert "RanksOutOfSync: All ranks must hold the same weights. Received: rank 1 of 2 differs from rank 0" in told
    result = pair.run(BEGIN + FIT.replace("[part]", ""), timeout_s=100)
    assert "WARNING: the 2 ranks train on the same batches" in result.ranks[0].stderr


def test_a_rank_of_jax_that_raises_releases_the_other(pair: Session) -> None:
    told = message(pair, BEGIN + FAILS + FIT.replace("[broadcast]", "[broadcast, Fails()]"))
    assert "Rank 1 of 2" in told
    assert "ValueError: broken" in told
    first, second = weights(pair, BEGIN + FIT)
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hvd.DistributedGradientTape(None)", "A GradientTape is TensorFlow's, and Keras is on jax."),
        ("hvd.join()", "hvd.join is Horovod's, and Keras on JAX exchanges by JAX."),
        ("hvd.DistributedOptimizer(keras.optimizers.SGD(), op=hvd.Adasum)", "Adasum is Horovod's"),
        ("hvd.allreduce(1.0, op=hvd.Adasum)", "Adasum is Horovod's, and Keras on JAX exchanges by JAX."),
        ("hvd.init(comm=[0])", "With Keras on JAX hvd.init takes no communicator."),
        (
            "hvd.DistributedOptimizer(keras.optimizers.SGD(), backward_passes_per_step=2)",
            "On jax the Keras optimizer adds up the gradients of several backward passes.",
        ),
        ("import jax\njax.jit(hvd.allreduce)(x)", "Horovod's collectives, and the updates of an hvd.Distributed"),
        ("model.compile('sgd', 'mse')\nmodel.fit(x, y)", "Several ranks train one model"),
    ],
)
def test_what_jax_has_not_is_refused(pair: Session, line: str, says: str) -> None:
    assert f"InvalidInput: {says}" in message(pair, BEGIN + line)


def test_a_sites_library_is_refused_with_keras_on_jax(pair: Session) -> None:
    chosen = "from jupyter_ddl.engine import rank_state\nrank_state.here().collectives.exchanger = "
    pair.run(chosen + "object()")
    try:
        told = message(pair, BEGIN + FIT)
    finally:
        # The next cell runs, though the step that raised has kept the model's weights.
        pair.run(chosen + "None")
    assert "A model trains on from weights that it has." in message(pair, "model.fit(x, y, verbose=0)")
    assert "InvalidInput: Keras on JAX exchanges gradients within its compiled step" in told
