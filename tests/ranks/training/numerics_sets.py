"""Findings on process sets, which Horovod takes when it starts; with one rank there are none besides all ranks."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from mpi4py import MPI
from numerics_exchange import error, gradients_of, mean
from numerics_harness import finding
from numerics_models import (
    STEPS,
    alone,
    by_fit,
    by_loop,
    conv_model,
    dense_model,
    embedding_model,
    global_batches,
    largest,
    seeded,
)

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Iterator

SGD = partial(keras.optimizers.SGD, 0.1, momentum=0.9)


@contextmanager
def started_with(*rank_lists: list[int]) -> Iterator[list[Any]]:
    """Start Horovod anew with static process sets, and leave it without."""
    sets = [hvd.ProcessSet(ranks) for ranks in rank_lists]
    hvd.shutdown()
    hvd.init(process_sets=sets)
    try:
        yield sets
    except BaseException:
        hvd.shutdown()  # lets go of ranks that wait for this one
        raise
    finally:
        MPI.COMM_WORLD.Barrier()  # a rank that shuts down takes Horovod from the others
        hvd.shutdown()
        hvd.init()


def shard_in(process_set: Any, batches: Any) -> Any:
    size, place = process_set.size(), process_set.rank()
    return [(np.split(x, size)[place], np.split(y, size)[place]) for x, y in batches]


@finding
def two_process_sets() -> dict[str, Any]:
    """The first half of the ranks trains one model, the second half another, at the same time."""
    n = hvd.size()
    halves = [list(range(n // 2)), list(range(n // 2, n))]
    answers: dict[str, Any] = {}
    if n == 1:
        return answers
    with started_with(*halves) as sets:
        chosen = next(i for i, one in enumerate(sets) if one.included())
        mine = sets[chosen]
        for way, make_models in {"fit": (dense_model, conv_model), "loop": (embedding_model, dense_model)}.items():
            make_model = make_models[chosen]
            model = seeded(make_model)
            optimizer = hvd.DistributedOptimizer(SGD(), process_set=mine)
            (by_fit if way == "fit" else by_loop)(model, optimizer, shard_in(mine, global_batches(model)))
            weights = model.get_weights()
            every_rank = hvd.allgather_object([w.tobytes() for w in weights])
            answers[way] = {
                "difference": largest(weights, alone(make_model, SGD())),
                "same as": [r for r, other in enumerate(every_rank) if other == every_rank[hvd.rank()]],
            }
    return {"set": halves[chosen], **answers}


@finding
def idle_rank() -> dict[str, Any]:
    """All ranks but the last train; the last one takes no part, and nobody waits for it."""
    n = hvd.size()
    if n == 1:
        return {}
    with started_with(list(range(n - 1))) as (busy,):
        if not busy.included():
            return {"idle": True}
        rng = np.random.default_rng(1)
        batch = 12  # shared evenly by 1 and by 3 ranks
        x, y = rng.normal(size=(STEPS, batch, 10)).astype("float32"), rng.integers(0, 5, (STEPS, batch))
        batches = list(zip(x, y, strict=True))
        model = seeded(dense_model)
        by_fit(model, hvd.DistributedOptimizer(SGD(), process_set=busy), shard_in(busy, batches))
        return {"difference": largest(model.get_weights(), alone(dense_model, SGD(), batches))}


@finding
def reduced_in_a_set() -> float:
    """Gradients are averaged over the set's ranks and no others."""
    n, rank = hvd.size(), hvd.rank()
    if n == 1:
        return 0.0
    halves = [list(range(0, n, 2)), list(range(1, n, 2))]
    with started_with(*halves) as sets:
        mine = next(one for one in sets if one.included())
        gradients = [gradients_of(r) for r in halves[rank % 2]]
        variables = [keras.Variable(np.zeros_like(g)) for g in gradients_of(rank)]
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), process_set=mine)
        optimizer.build(variables)
        tf.function(partial(optimizer.apply, [tf.constant(g) for g in gradients_of(rank)], variables))()
        wanted = [mean(list(tensor)) for tensor in zip(*gradients, strict=True)]
        return error([-v.numpy() for v in variables], wanted)
