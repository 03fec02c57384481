"""Defines `--memory`: the words by which a training is made to need less memory, and their record.

Runs on: kernel, terminal and every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.codec import Int64  # noqa: TC001 (the codec reads it)

ACCUMULATE, REMAT, MIXED, HOST = "accumulate", "remat", "mixed", "host"
SHARD_OPTIMIZER, SHARD_ALL = "shard-optimizer", "shard-all"
USAGE = f"{ACCUMULATE}=N,{REMAT},{MIXED},{HOST},{SHARD_OPTIMIZER},{SHARD_ALL}"
_LEAST_PARTS = 2
_FLAGS = {
    REMAT: "remat",
    MIXED: "mixed",
    HOST: "host",
    SHARD_OPTIMIZER: "shard_optimizer",
    SHARD_ALL: "shard_all",
}
_PLAN = {
    REMAT: "activations of large layers are computed again in the backward pass",
    MIXED: "computes in half precision",
    HOST: "what the backward pass needs is kept in host memory",
    SHARD_OPTIMIZER: "each rank keeps its part of the optimizer's state",
    SHARD_ALL: "each rank keeps its part of weights, gradients and the optimizer's state",
}
_PLAN_OF_LOOPS = _PLAN | {
    MIXED: "computes in bfloat16",
    HOST: "what the backward pass needs, and the optimizer's state, is kept in host memory",
}


@dataclass(frozen=True)
class MemoryOptions:
    """How a cell's models are trained in less memory (docs/memory.md).

    Attributes:
        accumulate: the parts that each batch is trained in, for one update; 1 for whole batches.
        remat: activations are computed again in the backward pass.
        mixed: half precision, with weights in single precision; of Keras models on TensorFlow and PyTorch with a
            scaled loss.
        host: of PyTorch's models, and of Keras's on PyTorch, what the backward pass needs is kept in host memory; of
            PyTorch's the optimizer's state, too.
        shard_optimizer: each rank keeps its part of the optimizer's state, and updates its part of the weights.
        shard_all: of a loop of PyTorch's, or a Keras model on JAX, each rank keeps its part of weights, gradients and
            the optimizer's state.

    Raises:
        InvalidInput: `accumulate` is below 1, or `shard_all` is there with one that it does not go with.
    """

    accumulate: Int64 = 1
    remat: bool = False
    mixed: bool = False
    host: bool = False
    shard_optimizer: bool = False
    shard_all: bool = False

    def __post_init__(self) -> None:
        """Check the number."""
        if self.accumulate < 1:
            raise InvalidInput("A batch has at least one part.", f"accumulate={self.accumulate}", "Pass 2, 4, 8, ...")
        if self.shard_all and (self.accumulate > 1 or self.shard_optimizer or self.host):
            raise InvalidInput(
                f"{SHARD_ALL} goes with {REMAT} and {MIXED}, and with no other word.",
                f"--memory {self}",
                f"Write --memory {SHARD_ALL}, or {SHARD_ALL},{REMAT} (docs/memory.md).",
            )

    def __str__(self) -> str:
        """Return the words."""
        parts = [f"{ACCUMULATE}={self.accumulate}"] if self.accumulate > 1 else []
        return ",".join([*parts, *(word for word, name in _FLAGS.items() if getattr(self, name))])

    def plan(self, *, of_loop: bool = False) -> str:
        """Return what the plan of `--auto` says of it, for Keras's models or for a loop of PyTorch's."""
        texts = _PLAN_OF_LOOPS if of_loop else _PLAN
        parts = [f"each batch in {self.accumulate} parts, one update"] if self.accumulate > 1 else []
        return "; ".join([*parts, *(texts[word] for word, name in _FLAGS.items() if getattr(self, name))])


def parsed(words: str) -> MemoryOptions:
    """Return the options that words say, as `accumulate=4,remat`.

    Raises:
        InvalidInput: a word is unknown, is there twice, or its number is none above 1; or there is none.
    """
    values: dict[str, int | bool] = {}
    for word in words.split(","):
        name, has_number, number = word.strip().partition("=")
        if name == ACCUMULATE and number.isdecimal() and int(number) >= _LEAST_PARTS:
            field: str = ACCUMULATE
        elif name in _FLAGS and not has_number:
            field = _FLAGS[name]
        else:
            raise _bad(words)
        if field in values:
            raise _bad(words)
        values[field] = int(number) if has_number else True
    return MemoryOptions(**values)  # type: ignore[arg-type]


def _bad(words: str) -> InvalidInput:
    return InvalidInput(
        f"--memory takes words of {USAGE}, each once, with N from {_LEAST_PARTS}.",
        f"--memory {words}",
        "Write e.g. --memory accumulate=4,remat.",
    )
