"""Brings up ranks: ends the current ones, starts others, and reports to the state of the cluster.

Runs on: kernel.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.lifecycle import start_cancelled
from jupyter_ddl.errors import DdlError
from jupyter_ddl.host.threads import described
from jupyter_ddl.kernel.incarnation import Incarnation

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.kernel.attempt import Attempt
    from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle

    Step = Callable[[str], None]
    Launch = Callable[[ClusterSpec, Step, threading.Event], Cluster]


def bring_up(lifecycle: ClusterLifecycle, attempt: Attempt, launch: Launch, step: Step) -> None:
    """End the current ranks, start others, and make them the cluster's.

    Args:
        lifecycle: the state of the cluster.
        attempt: which ranks; a cancelled one leaves none.
        launch: starts ranks and returns them when they are ready, unless its event is set.
        step: called with a sentence at each step.

    Raises:
        ClusterStartFailed: a rank did not come up, or the attempt was cancelled.
        InvalidInput: a cluster of that name runs, or one that uses a device of this one.
        HostUnfit: no rank can start on this host.
    """
    lifecycle.finish_ending(attempt.ending)
    if attempt.given_up.is_set():
        raise start_cancelled()
    incarnation = Incarnation.of(launch(attempt.spec, step, attempt.given_up), lifecycle)
    if not lifecycle.adopt(attempt, incarnation):
        incarnation.end()
        raise start_cancelled()


@contextmanager
def starting(
    lifecycle: ClusterLifecycle, spec: ClusterSpec, cause: str, progress: Step
) -> Iterator[tuple[Attempt, Step]]:
    """Begin a start that the block carries out, and end it; yields the attempt, and what to call at each step.

    Args:
        lifecycle: the state of the cluster.
        spec: which ranks.
        cause: what began the start, for the log.
        progress: called with a sentence at each step.

    Raises:
        ClusterError: ranks are being started already.
        ClusterStartFailed: the start was cancelled.
    """
    attempt = lifecycle.begin(spec, cause)

    def step(text: str) -> None:
        lifecycle.note_step(attempt, text)
        progress(text)

    outcome = "the start was interrupted"
    try:
        yield attempt, step
        outcome = f"{spec.n} ranks are ready"
    except DdlError as error:
        outcome = described(error)
        if attempt.given_up.is_set():
            # Whatever the cancelling led to, e.g. a setup cell whose ranks were ended.
            raise start_cancelled() from error
        raise
    finally:
        lifecycle.settle(attempt, outcome, attempt.report)
