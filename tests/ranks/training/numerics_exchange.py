"""Findings on the exchange itself: what a DistributedOptimizer makes of gradients, against NumPy.

SGD(1.0) takes a variable from zero to minus its gradient, so the reduced gradient can be read to the last bit.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numerics_harness import finding

import jupyter_ddl.keras as hvd

SHAPES = [(6, 5), (7,), (1,)]
ROWS, WIDTH = 6, 3
WAYS = {"graph": True, "eager": False}

Arrays = list[np.ndarray]


def gradients_of(rank: int, dtype: str = "float32", seed: int = 11) -> Arrays:
    """Return one rank's gradients; every rank can make those of all."""
    numbers = np.random.default_rng([seed, rank])
    return [numbers.normal(size=shape).astype(dtype) for shape in SHAPES]


def every_rank(dtype: str = "float32", seed: int = 11) -> list[Arrays]:
    """Return tensor -> rank -> gradient."""
    return [list(tensor) for tensor in zip(*(gradients_of(r, dtype, seed) for r in range(hvd.size())), strict=True)]


def exchanged(gradients: list[Any], *, graph: bool = True, **options: Any) -> Arrays:
    """Return what the optimizer makes of this rank's gradients (arrays or tf.IndexedSlices)."""
    variables = [keras.Variable(np.zeros(tuple(g.shape)), dtype=tf.as_dtype(g.dtype).name) for g in gradients]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    optimizer.build(variables)
    tensors = [g if isinstance(g, tf.IndexedSlices) else tf.constant(g) for g in gradients]
    step = partial(optimizer.apply, tensors, variables)
    (tf.function(step) if graph else step)()
    return [-variable.numpy() for variable in variables]


def error(found: Arrays, wanted: Arrays) -> float:
    """Return the largest difference, relative to the largest element of its tensor."""
    return max(float(np.max(np.abs(f - w)) / np.max(np.abs(w))) for f, w in zip(found, wanted, strict=True))


def mean(gradients: Arrays) -> np.ndarray:
    answer: np.ndarray = np.mean(np.stack(gradients).astype("float64"), axis=0)
    return answer


def total(gradients: Arrays) -> np.ndarray:
    answer: np.ndarray = np.sum(np.stack(gradients).astype("float64"), axis=0)
    return answer


def adasum(gradients: Arrays) -> np.ndarray:
    """Return Adasum of the ranks' gradients of one tensor.

    Two gradients a, b give a(1 - ab/2aa) + b(1 - ab/2bb): their sum where they are orthogonal, their mean where they
    are the same. More are paired, neighbours first, and the pairs again.
    Source: Maleki et al., Scaling Distributed Training with Adaptive Summation (2020), sections 3 and 4.
    """
    if len(gradients) == 1:
        answer: np.ndarray = gradients[0].astype("float64")
        return answer
    return adasum([adasum_of_two(a, b) for a, b in zip(gradients[::2], gradients[1::2], strict=True)])


def adasum_of_two(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype("float64"), b.astype("float64")
    dot = np.vdot(a, b)
    # A zero vector adds nothing, whatever its factor.
    factors = [1 - dot / (2 * np.vdot(v, v)) if v.any() else 1.0 for v in (a, b)]
    answer: np.ndarray = a * factors[0] + b * factors[1]
    return answer


OPS = {"Average": (hvd.Average, mean), "Sum": (hvd.Sum, total), "Adasum": (hvd.Adasum, adasum)}


@finding
def ops() -> dict[str, float]:
    answers = {}
    for name, (op, wanted) in OPS.items():
        for dtype in ("float32", "float64"):
            mine, reduced = gradients_of(hvd.rank(), dtype), [wanted(tensor) for tensor in every_rank(dtype)]
            for way, graph in WAYS.items():
                answers[f"{name} {dtype} {way}"] = error(exchanged(mine, graph=graph, op=op), reduced)
    return answers


@finding
def ops_differ() -> dict[str, float]:
    """How far the gradient of this rank alone is from what each op gives: what a missing exchange would show."""
    mine = gradients_of(hvd.rank())
    return {name: error(mine, [wanted(tensor) for tensor in every_rank()]) for name, (_, wanted) in OPS.items()}


@finding
def adasum_at_its_corners() -> dict[str, float]:
    """Gradients that are the same, orthogonal, opposite, and zero on rank 0."""
    rank, n = hvd.rank(), hvd.size()
    same = np.arange(1, 9, dtype="float32")
    corners = {
        "same": [same] * n,
        "orthogonal": [same * (np.arange(8) % n == r) for r in range(n)],
        "opposite": [same * (-1.0) ** r for r in range(n)],
        "zero": [same * float(r > 0 or n == 1) for r in range(n)],
    }
    answers = {}
    for name, gradients in corners.items():
        (found,) = exchanged([gradients[rank].astype("float32")], op=hvd.Adasum)
        answers[name] = float(np.max(np.abs(found - adasum(gradients))))
    answers["same is the mean"] = float(np.max(np.abs(adasum(corners["same"]) - same)))
    answers["orthogonal is the sum"] = float(np.max(np.abs(adasum(corners["orthogonal"]) - same)))
    return answers


@finding
def half_precision() -> dict[str, Any]:
    """fp16 compression: the largest error against the bound that float16's 11 bits give."""
    answers: dict[str, Any] = {}
    n = hvd.size()
    for dtype in ("float32", "float64"):
        for name in ("Average", "Sum"):
            op, wanted = OPS[name]
            found = exchanged(gradients_of(hvd.rank(), dtype), compression=hvd.Compression.fp16, op=op)
            tensors = every_rank(dtype)
            # Each rank's number is rounded once, each of n - 1 additions rounds, and so does the division by n: n + 1
            # roundings of at most 2^-11 of the sum of the absolute values.
            bounds = [(n + 1) * 2.0**-11 * wanted([np.abs(g) for g in tensor]) for tensor in tensors]
            errors = [np.abs(f - wanted(tensor)) for f, tensor in zip(found, tensors, strict=True)]
            answers[f"{name} {dtype}"] = max(float(np.max(e / b)) for e, b in zip(errors, bounds, strict=True))
            answers[f"{name} {dtype} rounded"] = max(float(np.max(e)) for e in errors)
            answers[f"{name} {dtype} dtype"] = sorted({str(f.dtype) for f in found})
    return answers


@finding
def predivide() -> dict[str, float]:
    """Average is the same with any factor, and with float16 a factor keeps the sum from overflowing."""
    mine, n = gradients_of(hvd.rank()), hvd.size()
    wanted = [mean(tensor) for tensor in every_rank()]
    answers = {
        str(factor): error(exchanged(mine, gradient_predivide_factor=factor), wanted) for factor in (0.5, 2.0, 8.0)
    }
    big = [np.full(3, 40000.0, "float32")]
    half = {"compression": hvd.Compression.fp16}
    answers["fp16"] = float(exchanged(big, **half)[0][0])
    answers["fp16, divided before"] = float(exchanged(big, gradient_predivide_factor=float(n), **half)[0][0])
    return answers


@finding
def groups() -> dict[str, float]:
    mine, wanted = gradients_of(hvd.rank()), [mean(tensor) for tensor in every_rank()]
    answers = {f"groups={n}": error(exchanged(mine, groups=n), wanted) for n in (1, 2, 3, 9)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Horovod's own word for num_groups
        answers["num_groups=2"] = error(exchanged(mine, num_groups=2), wanted)
    for name, chosen in {"in two lists": [[0, 2], [1]], "one left out": [[2, 1]]}.items():
        variables = [keras.Variable(np.zeros_like(g)) for g in mine]
        lists = [[variables[i] for i in group] for group in chosen]
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), groups=lists)
        optimizer.build(variables)
        tf.function(partial(optimizer.apply, [tf.constant(g) for g in mine], variables))()
        answers[name] = error([-v.numpy() for v in variables], wanted)
    return answers


# --- rows of an embedding ---------------------------------------------------------------------------------------


def rows_of(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices and values: rows twice in one rank, in several ranks, and of a number of its own per rank."""
    numbers = np.random.default_rng([5, rank])
    indices = np.concatenate([[0, 0, rank % ROWS], numbers.integers(0, ROWS, rank)]).astype("int64")
    return indices, numbers.normal(size=(len(indices), WIDTH)).astype("float32")


def dense_of(indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    answer = np.zeros((ROWS, WIDTH), "float32")
    np.add.at(answer, indices, values)
    return answer


def rows(indices: np.ndarray, values: np.ndarray) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([ROWS, WIDTH], tf.int64))


@finding
def sparse() -> dict[str, float]:
    """Slices and a dense gradient in one step, kept as slices or made dense."""
    rank, n = hvd.rank(), hvd.size()
    dense = [gradients_of(r)[0] for r in range(n)]
    wholes = [dense_of(*rows_of(r)) for r in range(n)]
    empty = [np.zeros_like(wholes[0]), *wholes[1:]]
    answers = {}
    for name in OPS:
        op, wanted = OPS[name]
        for as_dense in (True, False):
            if name == "Adasum" and not as_dense:
                continue  # Horovod has none of slices
            for way, graph in WAYS.items():
                options = {"op": op, "sparse_as_dense": as_dense, "graph": graph}
                key = f"{name} {'as dense' if as_dense else 'slices'} {way}"
                found = exchanged([dense[rank], rows(*rows_of(rank))], **options)
                answers[key] = error(found, [wanted(dense), wanted(wholes)])
        if name != "Adasum" and n > 1:
            mine = rows_of(rank) if rank > 0 else (np.zeros(0, "int64"), np.zeros((0, WIDTH), "float32"))
            answers[f"{name}, rank 0 has no rows"] = error(exchanged([rows(*mine)], op=op), [wanted(empty)])
    return answers
