"""Keras on JAX with a batch for each rank: data of each kind, options of Horovod's optimizer, `--checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from frameworks import keras_outcomes
from frameworks import test_keras_torch_data as torchs
from frameworks.test_keras_torch_data import BEGIN, GLOBAL, OF_EACH, PER_RANK, WEIGHTS, alone, check_option, compare
from frameworks.test_keras_torch_horovod import AUTO, message, weights
from ranks.sizes import slow_but

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

KINDS = ("arrays", "loader, odd", "PyDataset", "generator")
SLOW_PER_RANK = pytest.param(AutoOptions(), id="per-rank", marks=pytest.mark.slow)
OWN_STEP = (keras_outcomes.OF_THIS_BACKEND / "custom_train_step_of_jax.py").read_text()


@pytest.fixture
def pair(keras_jax_ranks: Callable[[int], Session]) -> Session:
    return keras_jax_ranks(2)


@pytest.mark.parametrize("kind", slow_but(("arrays", "PyDataset", "generator"), KINDS))
def test_a_batch_for_each_rank_of_jax(pair: Session, kind: str, tmp_path: Path) -> None:
    wanted = alone(f"SIZE = 16\n{BEGIN}{OF_EACH[kind]}", tmp_path, "jax")
    compare(pair, f"SIZE = 8\n{BEGIN}{OF_EACH[kind]}", wanted, PER_RANK)


def test_a_train_step_that_clips_gets_the_gradients_of_all_ranks_on_jax(pair: Session, tmp_path: Path) -> None:
    code = OWN_STEP.replace("history = ", "").replace("validation_data=(x[72:], y[72:]), ", "")
    wanted = alone(code, tmp_path, "jax")
    compare(pair, code.replace("batch_size=12", "batch_size=6"), wanted, PER_RANK)


@pytest.mark.parametrize("option", slow_but(("sum", "a set of all"), torchs.OPTIONS))
def test_an_option_of_horovods_optimizer_on_jax(pair: Session, option: str, tmp_path: Path) -> None:
    check_option(pair, option, tmp_path, "jax")


def test_layers_that_stay_each_ranks_own_on_jax(pair: Session) -> None:
    torchs.test_layers_that_stay_each_ranks_own(pair)


# 11 samples of validation: of 16 a batch, rank 1 has none.
@pytest.mark.parametrize("size", [8, 16])
def test_layers_of_jax_draw_for_their_own_samples_and_averages_are_those_of_all(pair: Session, size: int) -> None:
    code = "stops = False\n" + AUTO.replace('"batch_size": 16', f'"batch_size": {size}')
    metrics = "\nresults = [history['loss'], history['val_mae'], model.evaluate(x, y, verbose=0)]\n"
    first, second = weights(pair, code + metrics, auto=AutoOptions())
    assert np.array_equal(first, second), "moving averages too"
    one, other = pair.pull("results").values()
    assert one == other
    assert one[0][-1] < one[0][0]


def cut_and_resumed(cut: Session, resumed: Session, folder: Path, auto: AutoOptions) -> list[np.ndarray]:
    """Return the weights of a training that is cut in its third epoch on some ranks, and resumed on others."""
    assert "on purpose" in message(cut, "stops = True\n" + AUTO, auto=auto, checkpoint=str(folder))
    result = resumed.run("stops = False\n" + AUTO + WEIGHTS, auto=auto, checkpoint=str(folder), timeout_s=100)
    assert "resumes after epoch 2 of 4" in result.ranks[0].stdout
    return list(resumed.pull("weights").values())


@pytest.mark.parametrize("auto", [SLOW_PER_RANK, pytest.param(GLOBAL, id="global")])
def test_a_training_on_jax_resumes_from_a_checkpoint(pair: Session, auto: AutoOptions, tmp_path: Path) -> None:
    whole = weights(pair, "stops = False\n" + AUTO, auto=auto)
    for before, after in zip(whole, cut_and_resumed(pair, pair, tmp_path, auto), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("auto", [SLOW_PER_RANK, pytest.param(GLOBAL, id="global")])
def test_a_training_on_jax_resumes_on_another_number_of_ranks(
    pair: Session, keras_jax_ranks: Callable[[int], Session], auto: AutoOptions, tmp_path: Path
) -> None:
    first, *others = cut_and_resumed(pair, keras_jax_ranks(4), tmp_path, auto)
    assert all(np.array_equal(first, other) for other in others)


def test_a_model_of_one_way_is_refused_in_the_other(pair: Session) -> None:
    code = "stops = False\n" + AUTO
    pair.run(code, auto=AutoOptions(), timeout_s=100)
    with pytest.raises(RankError, match="On JAX a model is distributed once: by its optimizer, or by Keras"):
        pair.run("model.fit(x, y, verbose=0)", auto=GLOBAL, timeout_s=100)
