"""The time of a training step on n ranks: compute, the wait for the slowest rank, and the exchange.

With alpha the seconds of a message and beta the seconds of a byte, an allreduce of m bytes on n ranks takes

    ring    2 (n - 1) alpha + 2 (n - 1) / n * m beta
    tree    2 ceil(log2 n) (alpha + m beta)

Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective Communication Operations in MPICH", section 2
(the cost model) and 4.5 (allreduce); the ring as Patarasuk and Yuan 2009 give it, without the time of the additions,
which beta, as it is measured here, contains. To it comes gamma, what an exchange costs whatever its size: Horovod's
cycle and its agreement on which tensors are ready.

Runs on: a terminal.
"""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ALGORITHMS = ("ring", "tree")
_DRAWS = 2000


@dataclass(frozen=True)
class Network:
    """What an allreduce costs.

    Attributes:
        algorithm: "ring" or "tree".
        alpha_s: of a message.
        beta_s: of a byte.
        gamma_s: of an exchange, whatever its size and the ranks.
    """

    algorithm: str
    alpha_s: float
    beta_s: float
    gamma_s: float

    def allreduce_s(self, n: int, size_bytes: float) -> float:
        """Return the seconds of an allreduce on n ranks, at least 2."""
        messages, bytes_share = terms(self.algorithm, n)
        return self.gamma_s + messages * self.alpha_s + bytes_share * size_bytes * self.beta_s


def terms(algorithm: str, n: int) -> tuple[float, float]:
    """Return how many messages follow each other, and how many times the bytes cross a link."""
    if algorithm == "ring":
        return 2 * (n - 1), 2 * (n - 1) / n
    rounds = 2 * math.ceil(math.log2(n))
    return rounds, rounds


def fitted(algorithm: str, n: int, latency_s: float, measured: Sequence[tuple[int, float]]) -> Network:
    """Return the network whose times are closest to the measured ones, by relative error.

    Args:
        algorithm: "ring" or "tree".
        n: ranks on which it was measured, at least 2.
        latency_s: of the shortest message, which is alpha.
        measured: (bytes, seconds) of allreduces, of two sizes at least.
    """
    messages, share = terms(algorithm, n)
    # Weighted least squares of seconds = constant + slope * bytes, each point by 1 / seconds.
    weights = [1 / seconds**2 for _, seconds in measured]
    total = sum(weights)
    mean_bytes = sum(w * size for w, (size, _) in zip(weights, measured, strict=True)) / total
    mean_s = sum(w * seconds for w, (_, seconds) in zip(weights, measured, strict=True)) / total
    spread = sum(w * (size - mean_bytes) ** 2 for w, (size, _) in zip(weights, measured, strict=True))
    slope = (
        sum(w * (size - mean_bytes) * (seconds - mean_s) for w, (size, seconds) in zip(weights, measured, strict=True))
        / spread
    )
    constant = mean_s - slope * mean_bytes
    return Network(algorithm, latency_s, max(slope, 0.0) / share, max(constant - messages * latency_s, 0.0))


def slowest_of(n: int, compute_s: Sequence[float]) -> float:
    """Return the mean of the largest of n draws from measured times: what a step of n ranks waits for.

    Args:
        n: ranks.
        compute_s: seconds of steps without exchange, of any ranks.
    """
    if n == 1:
        return statistics.median(compute_s)
    draws = random.Random(n)
    return statistics.median(max(draws.choices(compute_s, k=n)) for _ in range(max(50, _DRAWS // n)))


@dataclass(frozen=True)
class StepTime:
    """A predicted step, in seconds."""

    compute_s: float
    wait_s: float
    exchange_s: float

    @property
    def step_s(self) -> float:
        """The whole step: nothing is exchanged before the gradients are computed."""
        return self.compute_s + self.wait_s + self.exchange_s


def predicted(n: int, compute_s: Sequence[float], gradient_bytes: int, network: Network) -> StepTime:
    """Return the time of a step on n ranks.

    Args:
        n: ranks.
        compute_s: seconds of steps without exchange at the same batch size of a rank.
        gradient_bytes: of all gradients.
        network: fitted.
    """
    compute = statistics.median(compute_s)
    return StepTime(compute, slowest_of(n, compute_s) - compute, network.allreduce_s(n, gradient_bytes))
