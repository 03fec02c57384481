"""`--auto --batch global --memory shard-all`: a Keras model on JAX, of which each rank has its part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from frameworks.keras_equality import GLOBAL, alone_on, assert_equal, bound_of, on_ranks
from frameworks.test_keras_jax import PROGRAMS
from ranks.sizes import slow_but

from jupyter_ddl.errors import InvalidInput, RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import MemoryOptions, parsed
from tests.remat_scopes import SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

SHARDED = MemoryOptions(shard_all=True)
QUICK = ("batch_normalization",)
# Variables of these small models are divided too.
ALL = "import keras\nfrom jupyter_ddl.jax_training import sharding\nsharding._LEAST_NUMBERS = {}\n"
MODEL = """
import keras, numpy as np
x = np.random.default_rng(0).normal(size=(128, 32)).astype("float32")
y = x.sum(axis=1, keepdims=True)

def made(seed=3):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(64, "relu", name="first"), keras.layers.BatchNormalization(), keras.layers.Dense(63)]
    model = keras.Sequential([keras.Input((32,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model

def trained(model, **options):
    return model.fit(x, y, batch_size=32, verbose=0, shuffle=False, **options).history["loss"]

def held(variables):
    return sum(variable.value.addressable_data(0).nbytes for variable in variables)

def weights(model):
    return [np.asarray(weight) for weight in model.get_weights()]
"""


@pytest.fixture(scope="module")
def begun(keras_jax_ranks: Callable[[int], Session]) -> Session:
    session = keras_jax_ranks(2)
    session.run(MODEL)
    return session


@pytest.fixture
def pair(begun: Session) -> Session:
    begun.run(ALL.format(1_024), independent=True)
    return begun


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    return alone_on("jax", tmp_path_factory.mktemp("alone-jax"), QUICK)


def run(session: Session, code: str, **options: Any) -> Any:
    """Run code, sharded; return rank 0's value."""
    options = {"auto": GLOBAL, "memory": SHARDED, **options}
    values = [rank.value for rank in session.run(code, timeout_s=200, **options).ranks.values()]
    assert values[0] == values[1]
    return values[0]


@pytest.mark.parametrize("name", slow_but(QUICK, PROGRAMS))
def test_a_program_comes_to_what_one_process_does(
    pair: Session, name: str, alone: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    pair.run(ALL.format(1), independent=True)
    for found in on_ranks(pair, name, tmp_path, SHARDED):
        assert_equal(found, alone(name), bound_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_so_it_does_on_four_ranks(
    keras_jax_ranks: Callable[[int], Session], name: str, alone: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    four = keras_jax_ranks(4)
    four.run(ALL.format(1), independent=True)
    for found in on_ranks(four, name, tmp_path, SHARDED):
        assert_equal(found, alone(name), bound_of(name))


def test_each_rank_has_its_part(pair: Session) -> None:
    run(pair, "model = made()\nlosses = trained(model)")
    kernels = "[model.layers[0].kernel, model.layers[2].kernel]"
    assert run(pair, f"held({kernels}) * 2 == sum(v.value.nbytes for v in {kernels})") == "True"
    # The odd one is divided by its rows; biases and the last layer are whole.
    assert run(pair, "model.layers[2].kernel.value.addressable_data(0).shape") == "(32, 63)"
    assert run(pair, "model.layers[3].kernel.value.is_fully_replicated") == "True"
    # Adam's moments, which are there twice for each weight.
    moments = "[v for v in model.optimizer.variables if 'kernel' in v.path and v.shape[1] > 1]"
    assert run(pair, f"len({moments}), held({moments}) == 2 * held({kernels})") == "(4, True)"


def test_a_model_is_read_saved_and_loaded_whole(pair: Session, tmp_path: Path) -> None:
    path, best = str(tmp_path / "model.keras"), str(tmp_path / "best.weights.h5")
    code = f"""
stop = keras.callbacks.EarlyStopping(monitor="loss", patience=1, restore_best_weights=True)
keep = keras.callbacks.ModelCheckpoint({best!r}, monitor="loss", save_best_only=True, save_weights_only=True)
model = made()
trained(model, epochs=2, callbacks=[stop, keep])
model.save({path!r})
loaded = keras.models.load_model({path!r})
best = made(4)
best.load_weights({best!r})
now = weights(model)
same = [all(np.array_equal(a, b) for a, b in zip(now, weights(other))) for other in (loaded, best)]
shape = np.asarray(model.layers[0].kernel).shape, model.layers[0].kernel.numpy().dtype.name
predicted = np.allclose(model.predict(x, verbose=0), loaded.predict(x, verbose=0), atol=1e-5)
same, shape, predicted, "kernel" in repr(model.layers[0].kernel)
"""
    assert run(pair, code) == "([True, True], ((32, 64), 'float32'), True, True)"
    # Sharded again as it was loaded, the optimizer's state too.
    assert run(pair, "trained(loaded) == trained(model)") == "True"


def test_a_model_of_another_cell_is_sharded_and_stays_so(pair: Session) -> None:
    whole = "whole = made()\ntrained(whole)\nwhole.layers[0].kernel.value.is_fully_replicated"
    assert run(pair, whole, memory=None) == "True"
    assert run(pair, "model = made()\ntrained(model)\nnp.allclose(trained(model), trained(whole), rtol=1e-5)") == "True"
    assert run(pair, "whole.layers[0].kernel.value.is_fully_replicated") == "False"
    assert run(pair, "np.allclose(trained(model), trained(whole), rtol=1e-5)", memory=None) == "True"
    assert run(pair, "whole.layers[0].kernel.value.is_fully_replicated", memory=None) == "False"


def test_parts_outlive_a_release(pair: Session) -> None:
    run(pair, "model = made()\ntrained(model)\nbefore = weights(model)")
    with pytest.raises(RankError, match="on purpose"):
        pair.run("import time\nif rank: raise ValueError('on purpose')\ntime.sleep(60)", timeout_s=100)
    same = "model.evaluate(x, y, verbose=0) > 0, all(map(np.array_equal, before, weights(model)))"
    assert run(pair, same) == "(True, True)"
    assert run(pair, "trained(model)[0] > 0") == "True"


def test_a_checkpoint_is_of_the_whole(pair: Session, tmp_path: Path) -> None:
    code = "model = made()\nlosses = trained(model, epochs={})\nlosses[-1]"
    checkpoint = str(tmp_path / "kept")
    straight = run(pair, code.format(4))
    run(pair, code.format(2), checkpoint=checkpoint)
    # Resumed without shard-all, whole on each rank.
    resumed = run(pair, code.format(4), checkpoint=checkpoint, memory=None)
    assert float(resumed) == pytest.approx(float(straight), rel=1e-5)
    assert run(pair, "model.layers[0].kernel.value.is_fully_replicated", memory=None) == "True"


@pytest.mark.slow
def test_a_checkpoint_is_resumed_sharded_on_other_numbers_of_ranks(
    keras_jax_ranks: Callable[[int], Session], pair: Session, tmp_path: Path
) -> None:
    """Two epochs on 2 ranks, two on 3, two on 1: in each world the parts are of its own ranks."""
    code = "model = made()\nlosses = trained(model, epochs={})\nparts = parts_of(model)\n"
    code += "now = [weight.tolist() for weight in weights(model)]"
    parts = """
def parts_of(model):
    second = model.layers[2].kernel
    moments = [v for v in model.optimizer.variables if v.shape == second.shape]
    return [v.value.nbytes / v.value.addressable_data(0).nbytes for v in (second, *moments)]
"""
    pair.run(parts)
    pair.run(code.format(6), auto=GLOBAL, memory=SHARDED, timeout_s=200)
    straight, expected = pair.pull("losses")[0], pair.pull("now")[0]
    for ranks, epochs in ((2, 2), (3, 4), (1, 6)):
        session = keras_jax_ranks(ranks)
        session.run(MODEL + parts)
        resumed = session.run(
            code.format(epochs), auto=GLOBAL, memory=SHARDED, checkpoint=str(tmp_path / "kept"), timeout_s=200
        )
        assert (f"resumes after epoch {epochs - 2} of {epochs}" in resumed.ranks[0].stdout) == (epochs > 2)
        for losses in session.pull("losses").values():
            assert losses == pytest.approx(straight[epochs - 2 : epochs], rel=1e-5)
        assert set(map(tuple, session.pull("parts").values())) == {(float(ranks),) * 3}
    for ours, theirs in zip(session.pull("now")[0], expected, strict=True):
        assert np.allclose(ours, theirs, atol=1e-5)


def test_other_weights_on_ranks_are_found(pair: Session) -> None:
    code = """
model = made()
model.layers[0].set_weights([np.full((32, 64), 0.01 * (1 + rank), "float32"), np.zeros(64, "float32")])
trained(model)
"""
    with pytest.raises(RankError, match="The ranks hold different weights before the training"):
        run(pair, code)


def test_what_shard_all_cannot_do_is_refused(pair: Session) -> None:
    def refused(match: str, **options: Any) -> None:
        with pytest.raises((InvalidInput, RankError), match=match):
            run(pair, "trained(made())", **options)

    refused("Add --auto --batch global", auto=AutoOptions())
    for words in ("accumulate=2", "shard-optimizer", "host"):
        refused("With Keras on JAX --memory takes remat, mixed and shard-all", memory=parsed(words))
    # The ranks are as they were.
    assert run(pair, "trained(made())[0] > 0") == "True"


def test_parts_of_a_model_are_not_kept_for_other_ranks(pair: Session) -> None:
    code = """
import io
from jupyter_ddl.engine.kept_variables.shared_pickle import Writer
model = made()
trained(model)
Writer(io.BytesIO()).problem_with(model)
"""
    assert "its weights are divided over the ranks that are ended: save it in a cell" in run(pair, code)


@pytest.mark.slow
def test_keras_own_scope_trains_the_same_on_jax(pair: Session) -> None:
    """Whole and sharded; a layer that draws random numbers cannot be in it with Keras 3.15."""
    pair.run(SCOPES + ALL.format(4))
    code = "found = [(trained_in(None, kind), trained_in('full', kind)) for kind in ('scaled', 'dense')]"
    for memory in (None, SHARDED):
        pair.run(code, auto=GLOBAL, memory=memory, timeout_s=200)
        for found in pair.pull("found").values():
            for without, within in found:
                assert within == pytest.approx(without, rel=1e-5)
    with pytest.raises(RankError, match="Unable to automatically build the model"):
        pair.run("trained_in('full', 'dropout')", auto=GLOBAL, timeout_s=200)


def test_a_division_of_the_programs_own(pair: Session) -> None:
    own = """
mesh = keras.distribution.DeviceMesh((1, 2), ["batch", "model"], keras.distribution.list_devices())
layouts = keras.distribution.LayoutMap(mesh)
layouts[".*first/kernel"] = ("model", None)
keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts, auto_shard_dataset=False))
try:
    model = made()
    losses = trained(model, epochs=2)
    read = weights(model)[0].shape, held([model.layers[0].kernel]) * 2 == model.layers[0].kernel.value.nbytes
finally:
    keras.distribution.set_distribution(None)
losses[-1]
"""
    straight = run(pair, "trained(made(), epochs=2)[-1]")
    assert float(run(pair, own, auto=None, memory=None)) == pytest.approx(float(straight), rel=1e-5)
    assert pair.pull("read") == {0: ((32, 64), True), 1: ((32, 64), True)}


@pytest.mark.slow
def test_one_rank_trains_as_without(keras_jax_ranks: Callable[[int], Session]) -> None:
    session = keras_jax_ranks(1)
    session.run(MODEL)
    result = session.run("trained(made())[0] > 0", auto=GLOBAL, memory=SHARDED, timeout_s=200)
    assert result.ranks[0].value == "True"
