"""Keras on JAX: under --auto all ranks come to what one process does; what would train apart is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from frameworks.keras_equality import GLOBAL, alone_on, assert_equal, bound_of, of_any_backend, on_ranks
from ranks.sizes import slow_but

from jupyter_ddl.errors import InvalidInput, RankError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# Of pandas; losses without a reduction, of which JAX takes no gradient; and sums of float16, which are refused.
NOT_ON_JAX = ("data_frame", "summed_losses", "mixed_precision")
PROGRAMS = [*of_any_backend(*NOT_ON_JAX), "custom_train_step_of_jax", "summed_losses_of_torch"]
QUICK = ("batch_normalization", "odd_batch", "scheduled_checkpoints", "train_on_batch_loop", "weighted_samples")

MODEL = """
import keras, numpy as np
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

def made():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model
"""


@pytest.fixture
def pair(keras_jax_ranks: Callable[[int], Session]) -> Session:
    return keras_jax_ranks(2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    return alone_on("jax", tmp_path_factory.mktemp("alone-jax"), QUICK)


@pytest.mark.parametrize("name", slow_but(QUICK, PROGRAMS))
def test_a_program_comes_to_what_one_process_does(
    pair: Session, name: str, alone: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    for found in on_ranks(pair, name, tmp_path):
        assert_equal(found, alone(name), bound_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_so_it_does_on_one_rank_and_on_four(
    keras_jax_ranks: Callable[[int], Session], n: int, name: str, alone: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    for found in on_ranks(keras_jax_ranks(n), name, tmp_path):
        assert_equal(found, alone(name), bound_of(name))


def refused(session: Session, code: str, match: str, **options: Any) -> None:
    with pytest.raises((InvalidInput, RankError), match=match):
        session.run(MODEL + code, timeout_s=200, **options)


def test_what_would_train_apart_is_refused(pair: Session) -> None:
    refused(pair, "made().fit(x, y, verbose=0)", "Several ranks train one model")
    refused(pair, "made().fit(x + rank, y, verbose=0)", "all ranks read the same batches", auto=GLOBAL)
    backup = "made().fit(x, y, verbose=0, callbacks=[keras.callbacks.BackupAndRestore('b')])"
    refused(pair, backup, "BackupAndRestore saves and restores one process", auto=GLOBAL)
    half = "keras.config.set_dtype_policy('mixed_{}float16')\nhalf = made()\nkeras.config.set_dtype_policy('float32')\n"
    refused(pair, half.format("") + "half.fit(x, y, verbose=0)", r"which computes \w+ in float16", auto=GLOBAL)
    in_short = half.format("b") + "half.fit(x, y, verbose=0, epochs=3).history['loss'][-1] < 20"
    assert pair.run(MODEL + in_short, auto=GLOBAL, timeout_s=200).ranks[0].value == "True"
    # Ranks and JAX's processes are as they were.
    history = "made().fit(x, y, verbose=0, batch_size=16).history['loss'][0] > 0"
    assert pair.run(MODEL + history, auto=GLOBAL, timeout_s=200).ranks[0].value == "True"


def test_models_of_a_rank_alone(pair: Session) -> None:
    seeds = "keras.utils.set_random_seed(rank)\nmodel = made()\nmodel.fit(x, y, verbose=0)"
    pair.run(MODEL + seeds, independent=True, timeout_s=200)
    first, second = pair.pull("model.get_weights()[0].sum()").values()
    assert first != second
    # All ranks cannot train on with them as one model.
    refused(pair, "model.fit(x, y, verbose=0)", "The ranks hold different weights before the training", auto=GLOBAL)


def test_a_distribution_of_the_programs_own(pair: Session) -> None:
    code = """
import jax
jax.distributed.initialize()
keras.utils.set_random_seed(3)
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
try:
    model = made()
    model.fit(x[rank::2], y[rank::2], batch_size=8, epochs=2, shuffle=False, verbose=0)
    found = [weight.tolist() for weight in model.get_weights()]
    rows = model.predict(x[:6], batch_size=6, verbose=0).shape
finally:
    keras.distribution.set_distribution(None)
"""
    pair.run(MODEL + code, timeout_s=200)
    first, second = pair.pull("found").values()
    assert first == second
    assert pair.pull("rows")[1] == (6, 1)


def test_ranks_with_other_batches_are_named(pair: Session) -> None:
    begin = """
import jax
jax.distributed.initialize()
keras.utils.set_random_seed(3)
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
try:
    made().fit(%s, shuffle=False, verbose=0)
finally:
    keras.distribution.set_distribution(None)
"""
    refused(pair, begin % "x[: 16 + 8 * rank], y[: 16 + 8 * rank], batch_size=8", "2 on rank 0, 3 on rank 1")
    batches = "((x[:8], y[:8]) for _ in range(2 + rank))"
    refused(pair, begin % batches, "none left on ranks \\[0\\], where others have one")
    refused(pair, f"made().fit({batches}, verbose=0)", "none left on ranks \\[0\\]", auto=GLOBAL)


def test_one_rank_saves_under_auto(pair: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "model.keras")
    code = f"""
model = made()
model.fit(x, y, batch_size=16, verbose=0)
if rank == 0:
    model.save({path!r})
model.fit(x, y, batch_size=16, verbose=0)
model.save({str(tmp_path / "other.keras")!r})
weights = keras.models.load_model({str(tmp_path / "other.keras")!r}).get_weights()[0].tolist()
same = weights == model.get_weights()[0].tolist()
"""
    pair.run(MODEL + code, auto=GLOBAL, timeout_s=200)
    assert pair.pull("same") == {0: True, 1: True}
    assert (tmp_path / "model.keras").is_file()


def test_a_model_trains_on_after_a_failure_elsewhere(pair: Session) -> None:
    pair.run(MODEL + "model = made()\nmodel.fit(x, y, batch_size=16, verbose=0)", auto=GLOBAL, timeout_s=200)
    with pytest.raises(RankError, match="on purpose"):
        pair.run("import time\nif rank: raise ValueError('on purpose')\ntime.sleep(60)", timeout_s=100)
    again = "float(model.fit(x, y, batch_size=16, verbose=0).history['loss'][0])"
    values = [rank.value for rank in pair.run(again, auto=GLOBAL, timeout_s=200).ranks.values()]
    assert values[0] == values[1] is not None
