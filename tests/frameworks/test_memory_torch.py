"""`--memory` with Keras on PyTorch, on two ranks: the exchange is torch.distributed's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed
from tests.masked_training import MASKED
from tests.remat_scopes import SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
STATE = "state = sum(v.numpy().nbytes for v in inner(model.optimizer).variables if len(v.shape))"
TRAIN = f"""
model = made()
history = model.fit(x, y, batch_size=14, epochs=3, verbose=0)
{STATE}
found = [w.tolist() for w in model.get_weights()], history.history['loss'], state
"""


GLOBAL = AutoOptions(batch="global")


def trained(session: Session, memory: str) -> tuple[list[Any], list[float], int]:
    words = parsed(memory) if memory else None
    session.run(TRAIN, auto=GLOBAL, memory=words)
    first, second = session.pull("found").values()
    assert first[0] == second[0]
    return [np.array(weight) for weight in first[0]], first[1], first[2]


def farthest(some: list[Any], others: list[Any]) -> float:
    return max(float(np.abs(one - other).max()) for one, other in zip(some, others, strict=True))


def test_shard_all_is_for_loops(keras_ranks: Callable[[int], Session]) -> None:
    session = keras_ranks(2)
    session.run(PROGRAM)
    with pytest.raises(RankError, match=r"a training of functional\w* by Keras on torch\. Write shard-optimizer"):
        session.run(TRAIN, auto=GLOBAL, memory=parsed("shard-all"))


@pytest.mark.parametrize("memory", ["accumulate=3,remat", "host", "shard-optimizer", "shard-optimizer,accumulate=3"])
def test_a_training_of_keras_on_torch_in_less_memory_is_the_same(
    keras_ranks: Callable[[int], Session], memory: str
) -> None:
    session = keras_ranks(2)
    session.run(PROGRAM)
    weights, losses, state = trained(session, "")
    others, in_less, part = trained(session, memory)
    assert farthest(weights, others) < 1e-6
    assert in_less == pytest.approx(losses, rel=1e-5)
    if "shard" in memory:
        assert state / 2 <= part <= state / 2 + 8 * 4 * 2
    else:
        assert part == state


@pytest.mark.slow
def test_sharded_state_on_torch_is_saved_and_resumed_on_other_numbers_of_ranks(
    keras_ranks: Callable[[int], Session], tmp_path: Path
) -> None:
    """Trained on 2 ranks, then on 3, then on 1, and not sharded in one go: batches of 12, and one of 4 last."""
    fit = "model = made()\nmodel.fit(x[:52], y[:52], batch_size=12, epochs={}, shuffle=False, verbose=0)\n"
    fit += "found = [w.tolist() for w in model.get_weights()]\n" + STATE
    memory = parsed("shard-optimizer")

    def weights_of(session: Session) -> list[Any]:
        first, *others = session.pull("found").values()
        assert all(other == first for other in others)
        return [np.array(weight) for weight in first]

    pair = keras_ranks(2)
    pair.run(PROGRAM)
    expected = {}
    for epochs in (4, 6):
        pair.run(fit.format(epochs), auto=GLOBAL)
        expected[epochs] = weights_of(pair)
    whole = pair.pull("state")[0]
    pair.run(fit.format(2), auto=GLOBAL, memory=memory, checkpoint=str(tmp_path))
    for ranks, epochs in ((3, 4), (1, 6)):
        session = keras_ranks(ranks)
        session.run(PROGRAM)
        told = session.run(fit.format(epochs), auto=GLOBAL, memory=memory, checkpoint=str(tmp_path))
        assert f"resumes after epoch {epochs - 2} of {epochs}" in told.ranks[0].stdout
        assert farthest(expected[epochs], weights_of(session)) < 1e-6
        # A number of padding for each of two moments of four weights at most.
        for part in session.pull("state").values():
            assert whole / ranks <= part <= whole / ranks + 8 * 4 * 2 * (ranks > 1)


def test_mixed_on_torch_goes_with_all_the_others(keras_ranks: Callable[[int], Session]) -> None:
    session = keras_ranks(2)
    session.run(PROGRAM.replace(", dtype='float64'", ""))
    whole, _, _ = trained(session, "")
    others, _, _ = trained(session, "accumulate=2,mixed,remat,shard-optimizer")
    assert farthest(whole, others) < 0.02


@pytest.mark.parametrize("kind", ["scaled", "dense", "dropout"])
def test_keras_own_scope_trains_the_same_on_torch(keras_ranks: Callable[[int], Session], kind: str) -> None:
    session = keras_ranks(2)
    session.run(SCOPES)
    session.run(f"found = trained_in(None, {kind!r}), trained_in('full', {kind!r})", auto=GLOBAL)
    for without, within in session.pull("found").values():
        assert within == pytest.approx(without, rel=1e-6)


def test_a_loss_over_what_a_mask_leaves_is_refused_in_parts_on_torch(keras_ranks: Callable[[int], Session]) -> None:
    session = keras_ranks(2)
    session.run(MASKED)
    with pytest.raises(RankError, match=r"Received: mse with a mask of the model's output\. Give the"):
        session.run(
            "trained_on_steps(mask_zero=True, of_steps=True)",
            auto=GLOBAL,
            memory=parsed("accumulate=2"),
        )
