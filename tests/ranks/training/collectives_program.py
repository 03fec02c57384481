"""What test_collectives.py asserts, measured on every rank.

Run on ranks by `numerics_world.world_on`, or by `mpiexec -n N python collectives_program.py FOLDER`.
"""

from __future__ import annotations

import inspect
import os
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from findings import FOLDER, error_text, finding, printed, take_all

import jupyter_ddl.keras as hvd


def kinds(number: float) -> dict[str, Any]:
    """Return a number in every form that a collective takes."""
    return {
        "python": number,
        "numpy scalar": np.float32(number),
        "array": np.full((1, 2), number),
        "tensor": tf.fill((1, 2), tf.constant(number, tf.float32)),
        "keras variable": keras.Variable(np.full((1, 2), number), dtype="float32"),
        "tf variable": tf.Variable(tf.fill((1, 2), tf.constant(number, tf.float32))),
        "list": [[number, number]],
    }


def plain(value: Any) -> list[Any]:
    """Return an eager tensor's dtype and value."""
    return [value.dtype.name, value.numpy().tolist()]


@finding
def values_of_every_kind() -> dict[str, Any]:
    own = kinds(float(hvd.rank()))
    return {
        "allreduce": {name: plain(hvd.allreduce(value)) for name, value in own.items()},
        "allgather": {name: plain(hvd.allgather(value)) for name, value in own.items()},
        "broadcast": {name: plain(hvd.broadcast(value, hvd.size() - 1)) for name, value in own.items()},
    }


@finding
def reductions() -> dict[str, Any]:
    rank = hvd.rank()
    vector = np.array([rank + 1.0, 1 / 3], "float32")
    answers = {
        "default": plain(hvd.allreduce(vector)),
        "by position": plain(hvd.allreduce(vector, "named", None, 2.0, 0.5, hvd.Sum, hvd.Compression.none)),
        "scaled": plain(hvd.allreduce(vector, prescale_factor=2.0, postscale_factor=3.0, op=hvd.Sum)),
        "fp16": plain(hvd.allreduce(vector, compression=hvd.Compression.fp16)),
        "python int": plain(hvd.allreduce(rank)),
        "python int, sum": plain(hvd.allreduce(rank, op=hvd.Sum)),
    }
    for name in ("Sum", "Min", "Max", "Product"):
        answers[name] = plain(hvd.allreduce(vector, op=getattr(hvd, name)))
    slices = tf.IndexedSlices(tf.fill((1, 2), float(rank)), tf.constant([rank]), tf.constant([hvd.size(), 2]))
    answers["slices"] = plain(tf.convert_to_tensor(hvd.allreduce(slices, op=hvd.Sum)))
    return answers


@finding
def average_is_an_older_spelling() -> dict[str, Any]:
    answers = {}

    def old() -> None:
        for _ in range(2):
            answers["average"] = plain(hvd.allreduce(float(hvd.rank()), average=True))
        answers["sum"] = plain(hvd.allreduce(float(hvd.rank()), average=False))

    said = printed(old, "stderr")
    both = error_text(lambda: hvd.allreduce(1.0, average=True, op=hvd.Sum))
    return {**answers, "said": said, "both": both}


@finding
def scattered() -> dict[str, Any]:
    n, rank = hvd.size(), hvd.rank()
    rows = np.arange(2.0 * (n + 1), dtype="float32").reshape(n + 1, 2) * (rank + 1)
    return {
        "average": hvd.reducescatter(rows).numpy().tolist(),
        "sum": hvd.reducescatter(rows, op=hvd.Sum, postscale_factor=2.0).numpy().tolist(),
        "scalar": error_text(lambda: hvd.reducescatter(1.0)),
        "alltoall": hvd.alltoall(np.arange(n) + 10 * rank).numpy().tolist(),
        "splits": [
            part.numpy().tolist() for part in hvd.alltoall(np.full(n + n * (n - 1) // 2, rank), splits=np.arange(n) + 1)
        ],
    }


@finding
def joined() -> dict[str, Any]:
    """Rank K has K steps more than rank 0: the others' sums go on without the ranks that have joined. Then again."""
    sums = [float(hvd.allreduce(1.0, op=hvd.Sum)) for _ in range(hvd.rank() + 1)]
    last = int(hvd.join())
    again = [float(hvd.allreduce(1.0, op=hvd.Sum)) for _ in range(hvd.size() - hvd.rank())]
    return {"sums": sums, "last": last, "again": again, "last again": int(hvd.join())}


@finding
def barrier() -> float:
    """Return how long this rank waited, s; the last one came half a second late."""
    late = hvd.rank() == hvd.size() - 1
    hvd.barrier()
    if late:
        time.sleep(0.5)
    start = time.monotonic()
    hvd.barrier()
    return time.monotonic() - start


@finding
def of_a_process_set() -> dict[str, Any]:
    """Over all ranks but the last."""
    n, rank = hvd.size(), hvd.rank()
    if n == 1:
        return {}
    some = hvd.add_process_set(list(range(n - 1)))
    answers: dict[str, Any] = {}
    calls = {
        "allreduce": lambda: hvd.allreduce(float(rank), op=hvd.Sum, process_set=some),
        "allgather": lambda: hvd.allgather([rank], process_set=some),
        "broadcast": lambda: hvd.broadcast(float(rank + 5), n - 2, process_set=some),
        "reducescatter": lambda: hvd.reducescatter(np.full((n - 1, 1), rank + 1.0), op=hvd.Sum, process_set=some),
        "alltoall": lambda: hvd.alltoall(np.arange(n - 1), process_set=some),
        "barrier": lambda: hvd.barrier(process_set=some),
    }
    variable = keras.Variable([float(rank)])
    calls["broadcast_variables"] = lambda: hvd.broadcast_variables([variable], n - 2, process_set=some)
    for name, call in calls.items():
        if some.included():
            answer = call()
            answers[name] = None if answer is None else answer.numpy().tolist()
        else:
            answers[name] = error_text(call)
    answers["variable"] = variable.numpy().tolist()
    if some.included():
        answers["root"] = error_text(lambda: hvd.broadcast(1.0, n - 1, process_set=some))
    hvd.barrier()
    hvd.remove_process_set(some)
    answers["removed"] = error_text(lambda: hvd.allreduce(1.0, process_set=some))
    return answers


@finding
def in_a_graph() -> list[float]:
    total = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum, name="in_a_graph"), autograph=False)
    return [float(total(tf.constant(float(i)))) for i in (1, 2)]


@finding
def timeline() -> dict[str, Any]:
    without = error_text(lambda: hvd.start_timeline("never.json"))
    hvd.barrier()
    hvd.shutdown()
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    hvd.init()
    path = FOLDER / "timeline.json"
    hvd.start_timeline(path, mark_cycles=True)
    hvd.allreduce(1.0)
    hvd.barrier()
    hvd.stop_timeline()
    hvd.barrier()
    hvd.shutdown()
    del os.environ["HOROVOD_TIMELINE"]
    hvd.init()
    recorded = path.read_text() if hvd.rank() == 0 else ""
    return {"without": without, "recorded": "HorovodAllreduce" in recorded}


@finding
def errors() -> dict[str, str | None]:
    needing = {
        "allreduce": lambda: hvd.allreduce(1.0),
        "allgather": lambda: hvd.allgather(1.0),
        "broadcast": lambda: hvd.broadcast(1.0, 0),
        "reducescatter": lambda: hvd.reducescatter([1.0]),
        "alltoall": lambda: hvd.alltoall([1.0]),
        "join": hvd.join,
        "barrier": hvd.barrier,
        "broadcast_variables": lambda: hvd.broadcast_variables([], 0),
        "start_timeline": lambda: hvd.start_timeline("never.json"),
        "stop_timeline": hvd.stop_timeline,
    }
    hvd.barrier()
    hvd.shutdown()
    answers = {name: error_text(call) for name, call in needing.items()}
    hvd.init()
    answers["root"] = error_text(lambda: hvd.broadcast(1.0, -1))
    answers["global variables"] = error_text(lambda: hvd.broadcast_global_variables(0))
    return answers


@finding
def signatures() -> dict[str, Any]:
    """Return the parameters of what the layer exports: pairs of a name and its default, as source."""

    def of(function: Any) -> list[list[Any]]:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        return [[p.name, None if p.default is p.empty else written(p.default)] for p in parameters]

    functions = {name: value for name in hvd.__all__ if inspect.isfunction(value := getattr(hvd, name))}
    classes = {
        f"{module.__name__.rpartition('.')[2]}.{name}": getattr(module, name)
        for module in (hvd.callbacks, hvd.elastic)
        for name in module.__all__
    }
    parameters = {name: of(value) for name, value in (functions | classes).items()}
    return {"parameters": parameters, "exports": list(hvd.__all__)}


def written(default: Any) -> str:
    """Return a default as Horovod's source has it."""
    names = {hvd.Compression.none: "Compression.none", hvd.global_process_set: "global_process_set"}
    return names.get(default) or repr(default)


@finding
def horovods_own_names_give_this_module() -> bool:
    import horovod.keras
    import horovod.tensorflow.keras as stock

    return stock is hvd and horovod.keras is hvd and stock.callbacks is hvd.callbacks


if __name__ == "__main__":
    take_all(process_sets="dynamic")
