"""`--memory` with Keras on PyTorch, on two ranks: the exchange is torch.distributed's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed
from tests.masked_training import MASKED

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

PROGRAM = """
import keras, numpy as np
from jupyter_ddl.training.optimizer.learning_rate import inner
def made():
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6,))
    x = keras.layers.Dense(16, activation='gelu', dtype='float64')(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1, dtype='float64')(x))
    model.compile(keras.optimizers.AdamW(0.01, global_clipnorm=0.5), 'mse')
    return model
data = np.random.default_rng(1)
x, y = data.normal(size=(60, 6)), data.normal(size=(60, 1))
"""
TRAIN = """
model = made()
history = model.fit(x, y, batch_size=14, epochs=3, verbose=0)
state = sum(v.numpy().nbytes for v in inner(model.optimizer).variables if len(v.shape))
found = [w.tolist() for w in model.get_weights()], history.history['loss'], state
"""


def trained(session: Session, memory: str) -> tuple[list[Any], list[float], int]:
    words = parsed(memory) if memory else None
    session.run(TRAIN, auto=AutoOptions(batch="global"), memory=words)
    first, second = session.pull("found").values()
    assert first[0] == second[0]
    return [np.array(weight) for weight in first[0]], first[1], first[2]


def test_shard_all_is_for_loops(keras_ranks: Callable[[int], Session]) -> None:
    session = keras_ranks(2)
    session.run(PROGRAM)
    with pytest.raises(RankError, match=r"a training of functional\w* by Keras\. Write shard-optimizer"):
        session.run(TRAIN, auto=AutoOptions(batch="global"), memory=parsed("shard-all"))


@pytest.mark.parametrize("memory", ["accumulate=3,remat", "shard-optimizer", "shard-optimizer,accumulate=3"])
def test_a_training_of_keras_on_torch_in_less_memory_is_the_same(
    keras_ranks: Callable[[int], Session], memory: str
) -> None:
    session = keras_ranks(2)
    session.run(PROGRAM)
    weights, losses, state = trained(session, "")
    others, in_less, part = trained(session, memory)
    farthest = max(float(np.abs(one - other).max()) for one, other in zip(weights, others, strict=True))
    assert farthest < 1e-6, farthest
    assert in_less == pytest.approx(losses, rel=1e-5)
    if "shard" in memory:
        assert state / 2 <= part <= state / 2 + 8 * 4 * 2
    else:
        assert part == state


def test_mixed_on_torch_goes_with_all_the_others(keras_ranks: Callable[[int], Session]) -> None:
    session = keras_ranks(2)
    session.run(PROGRAM.replace(", dtype='float64'", ""))
    whole, _, _ = trained(session, "")
    others, _, _ = trained(session, "accumulate=2,mixed,remat,shard-optimizer")
    assert max(float(np.abs(one - other).max()) for one, other in zip(whole, others, strict=True)) < 0.02


def test_a_loss_over_what_a_mask_leaves_is_refused_in_parts_on_torch(keras_ranks: Callable[[int], Session]) -> None:
    session = keras_ranks(2)
    session.run(MASKED)
    with pytest.raises(RankError, match=r"Received: mse with a mask of the model's output\. Give the"):
        session.run(
            "trained_on_steps(mask_zero=True, of_steps=True)",
            auto=AutoOptions(batch="global"),
            memory=parsed("accumulate=2"),
        )
