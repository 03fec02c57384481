"""A model trains on batches of one kind after those of another: with sample weights, of other types, by other calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODEL = """
import keras, numpy as np, tensorflow as tf
import jupyter_ddl.keras as hvd
hvd.init()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
draws = np.random.default_rng(rank)
# Rank 1 has fewer batches, so it takes its last one again, which must be of the kind that is trained then.
n = 32 - 16 * rank
x, y = draws.random((n, 4), "float32"), draws.random((n, 2), "float32")
ways = {
    "plain": lambda: model.fit(x, y, batch_size=8, verbose=0),
    "weighted": lambda: model.fit(x, y, sample_weight=np.ones(n), batch_size=8, verbose=0),
    "integers": lambda: model.fit(x, (y > 0.5).astype("int32"), batch_size=8, verbose=0),
    "one batch": lambda: model.train_on_batch(x[:8], y[:8]),
    "a weighted batch": lambda: model.train_on_batch(x[:8], y[:8], sample_weight=np.ones(8)),
}
"""
KINDS = ("plain", "weighted", "integers", "one batch", "a weighted batch", "plain", "weighted")


def test_each_kind_after_each_other(pair: Session) -> None:
    pair.run(MODEL)
    for kind in KINDS:
        # An `fit` that ends well has compared the weights of all ranks.
        pair.run(f"ways[{kind!r}]()\nassert np.isfinite(model.get_weights()[0]).all()")
    # Of the last kind only: the labels are the second part of a batch.
    pair.run(
        "from jupyter_ddl.training.fit.wrapped_methods import turn_of\n"
        "rows = [len(kept.holders[1].numpy()) for kept in turn_of(model).last._kept]"
    )
    assert pair.pull("rows", [0])[0] == [0, 8]
    pair.run("kernel = model.get_weights()[0].tolist()")
    assert pair.pull("kernel", [0])[0] == pair.pull("kernel", [1])[1]
