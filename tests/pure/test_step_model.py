"""The time of a step from compute, latency and bandwidth: formulas, the fit, and what is predicted from points."""

from __future__ import annotations

import pytest

from jupyter_ddl.scaling.points import Point
from jupyter_ddl.scaling.prediction import predict
from jupyter_ddl.scaling.step_model import Network, fitted, predicted, slowest_of, terms

MIB = 2**20


@pytest.mark.parametrize(
    ("algorithm", "n", "expected"),
    [
        ("ring", 2, (2, 1.0)),
        ("ring", 8, (14, 1.75)),
        ("tree", 2, (2, 2)),
        ("tree", 8, (6, 6)),
        ("tree", 5, (6, 6)),
        ("ring", 1024, (2046, 2046 / 1024)),
    ],
)
def test_messages_and_bytes_of_an_allreduce(algorithm: str, n: int, expected: tuple[float, float]) -> None:
    assert terms(algorithm, n) == pytest.approx(expected)


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("n", [2, 4])
def test_a_fit_finds_the_network_that_made_the_times(algorithm: str, n: int) -> None:
    made = Network(algorithm, 2e-6, 4e-10, 3e-4)
    measured = [(size, made.allreduce_s(n, size)) for size in (4096, 65536, MIB, 64 * MIB)]
    found = fitted(algorithm, n, made.alpha_s, measured)
    assert found.beta_s == pytest.approx(made.beta_s, rel=1e-6)
    assert found.gamma_s == pytest.approx(made.gamma_s, rel=1e-6)


def test_the_slowest_of_many_is_slower_than_the_median() -> None:
    times = [1.0] * 90 + [2.0] * 10
    assert slowest_of(1, times) == 1.0
    assert slowest_of(2, times) == 1.0
    assert slowest_of(64, times) == 2.0


def test_a_step_is_compute_wait_and_exchange() -> None:
    time = predicted(4, [0.01, 0.01, 0.01], 4 * MIB, Network("ring", 1e-6, 1e-9, 1e-4))
    assert time.compute_s == 0.01
    assert time.wait_s == 0.0
    assert time.exchange_s == pytest.approx(1e-4 + 6e-6 + 1.5 * 4 * MIB * 1e-9)
    assert time.step_s == pytest.approx(time.compute_s + time.exchange_s)


def point(ranks: int, batch_size: int, network: Network, parameters: int = 100_000) -> Point:
    """Return a point whose steps are exactly what the model says: 100 µs a sample, and the exchange."""
    compute_s = 1e-4 * batch_size
    run = {
        "step_s": [compute_s + network.allreduce_s(ranks, 4 * parameters)] * 5,
        "losses": [2.0, 1.0, 0.5, 0.4, 0.3],
        "elapsed_s": [0.0, 0.1, 0.2, 0.3, 0.4],
        "compute_s": [compute_s] * 5 * ranks,
        "tensors": 8,
        "parameters": parameters,
        "exchange_s": [(size, network.allreduce_s(ranks, size)) for size in (4096, 400_000)],
        "latency_s": network.alpha_s if ranks > 1 else None,
    }
    return Point("horovod", ranks, batch_size, (run,))


def test_measured_points_are_predicted_and_the_rest_goes_to_1024() -> None:
    network = Network("ring", 1e-6, 1e-9, 1e-4)
    ring, tree = predict([point(n, 64, network) for n in (1, 2, 4)], cores=4)
    assert [step.ranks for step in ring.steps] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert ring.fitted_on == tree.fitted_on == 4
    assert ring.steps[0].time.exchange_s == pytest.approx(network.gamma_s), "what was measured on one rank"
    assert max(abs(step.error) for step in ring.steps if step.error is not None) < 1e-6
    assert all(step.error is None for step in ring.steps[3:])
    # The same times at 4 ranks, and a tree crosses its links more often.
    assert tree.steps[2].time.step_s == pytest.approx(ring.steps[2].time.step_s, rel=1e-6)
    assert tree.steps[-1].time.exchange_s > ring.steps[3].time.exchange_s


def test_ranks_that_share_a_core_are_not_what_the_network_is_fitted_on() -> None:
    network = Network("ring", 1e-6, 1e-9, 1e-4)
    assert predict([point(n, 64, network) for n in (1, 2, 4)], cores=2)[0].fitted_on == 2


def test_strong_scaling_ends_where_a_rank_has_one_sample() -> None:
    network = Network("ring", 1e-6, 1e-9, 1e-4)
    ring, _ = predict([point(n, 64 // n, network) for n in (1, 2)], cores=2)
    assert [(step.ranks, step.batch_size) for step in ring.steps][-1] == (64, 1)
    # Compute lies on the line through the measured batches, which here is 100 µs a sample.
    assert ring.steps[3].time.compute_s == pytest.approx(8 * 1e-4)


def test_one_rank_alone_predicts_nothing() -> None:
    assert predict([point(1, 64, Network("ring", 1e-6, 1e-9, 1e-4))], cores=2) == []
