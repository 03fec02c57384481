"""`--memory` on two ranks: a training in parts is that of whole batches; each word acts, and says so in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ranks.sizes import slow_but

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed
from tests.masked_training import EXACT_IN_PARTS, MASKED
from tests.remat_scopes import SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# In float64, so that a difference is one of the mathematics. 60 samples in batches of 14 end with one of 4.
PROGRAM = """
import gc, keras, numpy as np
keras.config.set_floatx('float64'); keras.config.set_dtype_policy('float64')
def made(optimizer='adam', dtype=None):
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6,))
    x = keras.layers.Dense(16, activation='gelu')(inputs)
    x = keras.layers.Dense(16, activation='gelu')(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile(optimizer, 'mse', metrics=['mae'])
    return model
data = np.random.default_rng(1)
x, y = data.normal(size=(60, 6)), data.normal(size=(60, 1))
weights_of_samples = data.uniform(size=60) * (data.uniform(size=60) > 0.3)
"""
TRAIN = """
model = made({optimizer})
history = model.fit(x, y, sample_weight=weights_of_samples, batch_size=14, epochs=3, verbose=0)
found = [w.tolist() for w in model.get_weights()], history.history
"""


@pytest.fixture(scope="module")
def prepared(ranks: Callable[[int], Session]) -> Iterator[Session]:
    session = ranks(2)
    session.run(PROGRAM)
    yield session
    session.run(
        "keras.config.set_floatx('float32'); keras.config.set_dtype_policy('float32'); model = None; gc.collect()"
    )


def trained(session: Session, memory: str, optimizer: str = "'adam'", batch: str = "global") -> tuple[Any, Any]:
    """Return the weights and the history of rank 0 after a training; the ranks' weights are equal."""
    words = parsed(memory) if memory else None
    run = session.run(TRAIN.format(optimizer=optimizer), auto=AutoOptions(batch=batch), memory=words)
    if words is not None:
        assert f"memory         {words.plan()}\n" in run.ranks[0].stdout
    first, second = session.pull("found").values()
    assert first[0] == second[0]
    return [np.array(weight) for weight in first[0]], first[1]


def farthest(some: list[Any], others: list[Any]) -> float:
    return max(float(np.abs(one - other).max()) for one, other in zip(some, others, strict=True))


@pytest.mark.parametrize("memory", slow_but({"accumulate=3"}, ["accumulate=3", "accumulate=8", "accumulate=3,remat"]))
def test_a_training_in_less_memory_is_the_same(prepared: Session, memory: str) -> None:
    weights, history = trained(prepared, "")
    others, in_parts = trained(prepared, memory)
    assert farthest(weights, others) < 1e-10
    assert in_parts["loss"] == pytest.approx(history["loss"], rel=1e-9)
    assert in_parts["mae"] == pytest.approx(history["mae"], rel=1e-9)


@pytest.mark.slow
def test_what_keras_own_scope_does_on_tensorflow(prepared: Session) -> None:
    """Without `training` a layer trains as it does without the scope; with it Keras 3.15 raises, as the docs say."""
    prepared.run(SCOPES)
    works = "found = trained_in(None, 'scaled'), trained_in('full', 'scaled')"
    prepared.run(works, auto=AutoOptions(batch="global"))
    for without, within in prepared.pull("found").values():
        assert within == pytest.approx(without, rel=1e-6)
    with pytest.raises(RankError, match=r"custom_gradient decorator currently supports keywords arguments only when"):
        prepared.run("trained_in('full', 'dense')", auto=AutoOptions(batch="global"))
    in_words = "found = trained_in(None, 'dense')"
    found = []
    for memory in (None, parsed("remat")):
        prepared.run(in_words, auto=AutoOptions(batch="global"), memory=memory)
        found.append(prepared.pull("found")[0])
    assert found[1] == pytest.approx(found[0], rel=1e-6)


@pytest.mark.parametrize("given", slow_but(EXACT_IN_PARTS[:1], EXACT_IN_PARTS))
def test_masks_within_a_model_and_weights_of_zero_are_trained_in_parts_the_same(prepared: Session, given: str) -> None:
    prepared.run(MASKED)
    found = []
    for memory in (None, parsed("accumulate=3")):
        prepared.run(f"found = trained_on_steps({given})", auto=AutoOptions(batch="global"), memory=memory)
        first, second = prepared.pull("found").values()
        assert first[0] == second[0]
        found.append(first)
    (weights, history), (others, in_parts) = found
    assert farthest([np.array(w) for w in weights], [np.array(w) for w in others]) < 1e-10
    assert in_parts["loss"] == pytest.approx(history["loss"], rel=1e-9)


def test_losses_over_what_a_mask_leaves_are_refused_in_parts(prepared: Session) -> None:
    prepared.run(MASKED)
    ignoring = (
        "model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)]); "
        "model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(True, ignore_class=2)); "
        "model.fit(x, np.arange(60) % 3)"
    )
    for code, received in (
        ("trained_on_steps(mask_zero=True, of_steps=True)", "mse with a mask of the model's output"),
        (ignoring, "sparse_categorical_crossentropy with ignore_class=2"),
    ):
        with pytest.raises(RankError) as error:
            prepared.run(code, auto=AutoOptions(batch="global"), memory=parsed("accumulate=2"))
        assert f"means over all values of a batch. Received: {received}. Give the values" in str(error.value)


def test_mixed_computes_in_half_precision_with_a_scaled_loss(prepared: Session) -> None:
    prepared.run("keras.config.set_floatx('float32'); keras.config.set_dtype_policy('float32')")
    try:
        whole, _ = trained(prepared, "")
        half, _ = trained(prepared, "mixed,accumulate=2")
        found = prepared.run(
            "print([layer.dtype_policy.name for layer in model.layers[1:]], type(model.optimizer).__mro__[2].__name__)"
        )
        assert "['mixed_float16', 'mixed_float16', 'float32'] LossScaleOptimizer" in found.ranks[0].stdout
        assert 1e-7 < farthest(whole, half) < 2e-2
        again, _ = trained(prepared, "mixed,accumulate=2,remat")
        assert farthest(half, again) < 1e-3
        # A second training of the same model in the same cell.
        prepared.run("model.fit(x, y, batch_size=14, verbose=0)", auto=AutoOptions(), memory=parsed("mixed"))
    finally:
        prepared.run("keras.config.set_floatx('float64'); keras.config.set_dtype_policy('float64')")


SHARDED = {
    "adam": "'adam'",
    "decayed": "own(keras.optimizers.AdamW(0.01, weight_decay=0.02))",
    "momentum": "keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)",
    "clipped": "keras.optimizers.RMSprop(0.01, clipnorm=0.05)",
    "clipped together": "keras.optimizers.Adam(0.01, global_clipnorm=0.05)",
    "scheduled": "keras.optimizers.Nadam(keras.optimizers.schedules.ExponentialDecay(0.01, 3, 0.9))",
}
OWN = """
def own(optimizer):
    optimizer.exclude_from_weight_decay(var_names=['bias'])
    return optimizer
"""
# The state of an Adam: bytes of this rank's moments, and of all of them.
STATE = """
from jupyter_ddl.training.optimizer.learning_rate import inner
moments = [v for v in inner(model.optimizer).variables if len(v.shape)]
state = sum(v.numpy().nbytes for v in moments), 2 * sum(v.numpy().nbytes for v in model.trainable_variables)
"""


@pytest.mark.parametrize("kind", slow_but({"adam", "clipped together"}, SHARDED))
def test_an_optimizer_with_sharded_state_trains_the_same(prepared: Session, kind: str) -> None:
    prepared.run(OWN)
    weights, history = trained(prepared, "", SHARDED[kind])
    others, sharded = trained(prepared, "shard-optimizer", SHARDED[kind])
    assert farthest(weights, others) < 1e-10
    assert sharded["loss"] == pytest.approx(history["loss"], rel=1e-9)


def test_each_rank_has_its_part_of_the_state(prepared: Session) -> None:
    weights, _ = trained(prepared, "")
    others, _ = trained(prepared, "shard-optimizer,accumulate=2,remat")
    assert farthest(weights, others) < 1e-10
    prepared.run(STATE)
    for own, whole in prepared.pull("state").values():
        assert whole / 2 <= own <= whole / 2 + 8 * 6 * 2, "a number of padding for each moment at most"
    # It stays sharded in a cell without the option.
    prepared.run("model.fit(x, y, batch_size=14, verbose=0)", auto=AutoOptions(batch="global"))
    prepared.run(STATE)
    assert prepared.pull("state")[1][0] < 0.6 * prepared.pull("state")[1][1]


def test_a_model_is_saved_without_sharded_state_and_says_so(prepared: Session, tmp_path: Path) -> None:
    trained(prepared, "shard-optimizer")
    told = prepared.run(f"model.save({str(tmp_path / 'model.keras')!r})", auto=AutoOptions(batch="global"))
    assert "is sharded over the ranks, and is not saved with the model" in told.ranks[0].stderr
    prepared.run(
        "import warnings\nwith warnings.catch_warnings(record=True):\n"
        f"    again = keras.saving.load_model({str(tmp_path / 'model.keras')!r})\n"
        "same = all((a == b).all() for a, b in zip(again.get_weights(), model.get_weights()))\ndel again",
        independent=True,
    )
    assert set(prepared.pull("same").values()) == {True}


@pytest.mark.slow
def test_state_that_is_there_is_sharded(prepared: Session) -> None:
    again = "\nmodel.fit(x, y, batch_size=14, epochs=2, verbose=0)\nfound = [w.tolist() for w in model.get_weights()]"
    found = []
    for memory in (None, parsed("shard-optimizer")):
        trained(prepared, "")
        prepared.run(again, auto=AutoOptions(batch="global"), memory=memory)
        found.append([np.array(weight) for weight in prepared.pull("found")[0]])
    assert farthest(*found) < 1e-10


def test_sharded_state_is_saved_and_resumed_on_another_number_of_ranks(
    prepared: Session, ranks: Callable[[int], Session], tmp_path: Path
) -> None:
    fit = (
        "\nmodel.fit(x, y, batch_size=12, epochs={}, shuffle=False, verbose=0)"
        "\nfound = [w.tolist() for w in model.get_weights()]"
    )
    auto, memory = AutoOptions(batch="global"), parsed("shard-optimizer")
    prepared.run("model = made()" + fit.format(4), auto=auto)
    whole = [np.array(weight) for weight in prepared.pull("found")[0]]
    prepared.run("model = made()" + fit.format(2), auto=auto, memory=memory, checkpoint=str(tmp_path))
    three = ranks(3)
    three.run(PROGRAM)
    told = three.run("model = made()" + fit.format(4), auto=auto, memory=memory, checkpoint=str(tmp_path))
    assert "resumes after epoch 2 of 4" in told.ranks[0].stdout
    assert farthest(whole, [np.array(weight) for weight in three.pull("found")[0]]) < 1e-9
    three.run("keras.config.set_floatx('float32'); keras.config.set_dtype_policy('float32')")


@pytest.mark.slow
def test_a_checkpoint_of_several_ranks_is_resumed_on_one_and_of_one_on_several(
    prepared: Session, ranks: Callable[[int], Session], tmp_path: Path
) -> None:
    """--auto on one rank has no factor on the learning rate, which the checkpoint of several has."""
    fit = "model = made()\nmodel.fit(x, y, batch_size=12, epochs={}, shuffle=False, verbose=0)\n"
    fit += "found = [w.tolist() for w in model.get_weights()]"
    options = {"auto": AutoOptions(batch="global"), "memory": parsed("shard-optimizer")}
    prepared.run(fit.format(6), auto=options["auto"])
    whole = [np.array(weight) for weight in prepared.pull("found")[0]]
    one = ranks(1)
    one.run(PROGRAM)
    try:
        for session, epochs in ((prepared, 2), (one, 4), (prepared, 6)):
            told = session.run(fit.format(epochs), checkpoint=str(tmp_path), **options)
            assert (f"resumes after epoch {epochs - 2} of {epochs}" in told.ranks[0].stdout) == (epochs > 2)
    finally:
        one.run("keras.config.set_floatx('float32'); keras.config.set_dtype_policy('float32')")
    first, second = prepared.pull("found").values()
    assert first == second
    assert farthest(whole, [np.array(weight) for weight in first]) < 1e-9


# Each rank trains its own rows, as programs of Horovod's do.
EXPLICIT = """
import jupyter_ddl.keras as hvd
hvd.init()
model = made(hvd.DistributedOptimizer({optimizer}))
at_start = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
rows = slice(hvd.rank(), 56, hvd.size())
history = model.fit(x[rows], y[rows], batch_size=7, epochs=3, callbacks=[at_start], verbose=0)
found = [w.tolist() for w in model.get_weights()], history.history
"""


CLIPPED = "keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.05)"


@pytest.mark.parametrize("optimizer", slow_but({"'adam'"}, ["'adam'", CLIPPED]))
def test_the_users_own_distributed_optimizer_trains_the_same_with_sharded_state(
    prepared: Session, optimizer: str
) -> None:
    optimizer = f"keras.optimizers.get({optimizer})"
    found = []
    for memory in (None, parsed("shard-optimizer")):
        prepared.run(EXPLICIT.format(optimizer=optimizer), memory=memory)
        first, second = prepared.pull("found").values()
        assert first[0] == second[0]
        found.append(([np.array(weight) for weight in first[0]], first[1]["loss"]))
        prepared.run(STATE)
        states = prepared.pull("state")
    (weights, losses), (others, sharded) = found
    assert farthest(weights, others) < 1e-10
    assert sharded == pytest.approx(losses, rel=1e-9)
    whole = states[0][1] // (1 if "adam" in optimizer else 2)
    for own, _ in states.values():
        assert whole / 2 <= own <= whole / 2 + 8 * 6 * 2


@pytest.mark.slow
def test_mixed_goes_with_sharded_state(prepared: Session) -> None:
    prepared.run("keras.config.set_floatx('float32'); keras.config.set_dtype_policy('float32')")
    try:
        half, _ = trained(prepared, "mixed")
        sharded, _ = trained(prepared, "mixed,shard-optimizer")
        # An update whose gradients overflow is skipped on all ranks.
        prepared.run("model.optimizer.dynamic_scale.assign(2.0**120)\nbefore = model.get_weights()")
        prepared.run(
            "model.fit(x, y, batch_size=60, verbose=0)\n"
            "kept = all((a == b).all() for a, b in zip(before, model.get_weights())), "
            "float(model.optimizer.dynamic_scale.numpy())",
            auto=AutoOptions(batch="global"),
            memory=parsed("mixed,shard-optimizer"),
        )
        assert set(prepared.pull("kept").values()) == {(True, 2.0**119)}
    finally:
        prepared.run("keras.config.set_floatx('float64'); keras.config.set_dtype_policy('float64')")
    assert farthest(half, sharded) < 1e-5


def test_what_cannot_be_sharded_is_told(prepared: Session) -> None:
    for code, told in (
        ("model = made(keras.optimizers.Lamb(0.01)); model.fit(x, y)", "Received: Lamb. Drop shard-optimizer"),
        ("model = made(keras.optimizers.Adam(0.01, use_ema=True)); model.fit(x, y)", "Received: use_ema=True."),
    ):
        with pytest.raises(RankError) as error:
            prepared.run(code, auto=AutoOptions(), memory=parsed("shard-optimizer"))
        assert told in str(error.value)
    with pytest.raises(RankError, match=r"a plain Adam on 2 ranks\. Add --auto, or hvd.DistributedOptimizer"):
        prepared.run(
            "import jupyter_ddl.keras as hvd; hvd.init(); model = made(); model.fit(x, y)",
            memory=parsed("shard-optimizer"),
        )


def test_a_cell_that_trains_no_keras_model_says_that_memory_had_no_effect(prepared: Session) -> None:
    told = prepared.run("1", memory=parsed("remat")).ranks[0].stderr
    assert "NOTE: --memory remat had no effect" in told


@pytest.mark.parametrize(
    ("code", "memory", "told"),
    [
        (
            "model = made(); model.compile('sgd', keras.losses.MeanSquaredError('sum')); model.fit(x, y)",
            "accumulate=2",
            "takes losses that are means over samples. Received: MeanSquaredError(reduction='sum')",
        ),
        (
            "model = keras.Sequential([keras.layers.Dense(1)]); model.compile('sgd', 'mse'); model.fit(x, y)",
            "remat",
            "which is not built. Begin it with keras.Input",
        ),
        (
            (
                "class Own(keras.Model):\n    def train_step(self, data): return {}\n"
                "model = Own(); model.compile('sgd', 'mse'); model.fit(x, y)"
            ),
            "accumulate=2",
            "by Keras's own train_step. Received: Own.train_step",
        ),
        (
            "model = made(); model.compile('sgd', 'mse'); model.fit(x, y)",
            "host",
            "and Keras's on PyTorch. Received: a training by Keras on tensorflow. Leave it out",
        ),
    ],
)
def test_what_memory_cannot_do_is_told(prepared: Session, code: str, memory: str, told: str) -> None:
    with pytest.raises(RankError) as error:
        prepared.run(code, independent=True, memory=parsed(memory))
    assert told in str(error.value)
