"""`--memory remat` and `mixed` on Keras models on JAX: by a batch for each rank, over all ranks, and sharded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from frameworks.keras_equality import GLOBAL

from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODEL = """
import keras, numpy as np
from jupyter_ddl.memory import jax_steps
from jupyter_ddl.memory.keras_models import KerasSubject

x = np.random.default_rng(0).normal(size=(128, 16, 32)).astype("float32")
y = x.sum(axis=2, keepdims=True)

class Block(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner, self.outer = keras.layers.Dense(256, "gelu"), keras.layers.Dense(32)

    def build(self, shape):
        self.inner.build(shape)
        self.outer.build((*shape[:-1], 256))
        self.built = True

    def call(self, x):
        return x + self.outer(self.inner(x))

def made():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((16, 32)), *(Block() for _ in range(3)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.002), "mse")
    return model

def trained(model):
    return model.fit(x, y, batch_size=32, epochs=3, verbose=0, shuffle=False).history["loss"]

def kept(model):
    return KerasSubject(model, (x, y)).kept_bytes((x[:32], y[:32]))[0]
"""
WAYS = (
    pytest.param(("", AutoOptions()), id="per-rank"),
    pytest.param(("", GLOBAL), id="global", marks=pytest.mark.slow),
    pytest.param(("shard-all,", GLOBAL), id="shard-all"),
)


@pytest.fixture(scope="module")
def pair(keras_jax_ranks: Callable[[int], Session]) -> Session:
    session = keras_jax_ranks(2)
    session.run(MODEL)
    return session


def trained(session: Session, way: tuple[str, AutoOptions], words: str) -> dict[int, Any]:
    """Train a model of each rank's, or of all, and return the losses."""
    others, auto = way
    memory = parsed(f"{others}{words}".strip(",")) if others or words else None
    session.run("model = made()\nlosses = trained(model)", auto=auto, memory=memory, timeout_s=200)
    return session.pull("losses")


@pytest.mark.parametrize("way", WAYS)
def test_what_is_computed_again_trains_the_same_and_half_precision_nearly(
    pair: Session, way: tuple[str, AutoOptions]
) -> None:
    whole = trained(pair, way, "")
    again = trained(pair, way, "remat")
    pair.run("modes = [layer._remat_mode and layer._remat_mode.mode for layer in model.layers[:3]]")
    assert pair.pull("modes")[0] == ["full"] * 3
    half = trained(pair, way, "mixed")
    pair.run(
        "kinds = [(layer.compute_dtype, layer.variable_dtype) for layer in (model.layers[0].inner, model.layers[-1])]\n"
        "kinds.append(type(model.optimizer).__name__)\n"
    )
    assert pair.pull("kinds")[0][:2] == [("bfloat16", "float32"), ("float32", "float32")]
    assert "LossScale" not in pair.pull("kinds")[0][2]
    for rank in whole:
        assert again[rank] == pytest.approx(whole[rank], rel=1e-5)
        assert half[rank] == pytest.approx(whole[rank], rel=0.05)
        assert half[rank] != whole[rank]
        assert whole[rank][-1] < whole[rank][0]


def test_a_step_keeps_less_of_what_is_computed_again(pair: Session) -> None:
    pair.run(
        "model = made()\nbefore = kept(model)\n"
        "from jupyter_ddl.memory import remat\nwith remat.applied(model):\n    within = kept(model)",
        independent=True,
    )
    before, within = pair.pull("before")[0], pair.pull("within")[0]
    assert within < before / 2
