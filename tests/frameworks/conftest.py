"""Ranks that import PyTorch first, shared between tests: one cluster a world size."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import ClusterLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.kernel.session import Session

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: other environments have no PyTorch, and leave it out."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.frameworks)


@pytest.fixture(scope="session")
def torch_ranks() -> Iterator[Callable[[int], Session]]:
    """Return a function from a world size to a running session of that size, started when first asked for."""
    with _sessions("torch", {}) as of:
        yield of


@pytest.fixture(scope="session")
def keras_ranks() -> Iterator[Callable[[int], Session]]:
    """Return the same for ranks whose Keras is on PyTorch."""
    with _sessions("keras-torch", {"KERAS_BACKEND": "torch"}) as of:
        yield of


@pytest.fixture(scope="session")
def jax_ranks() -> Iterator[Callable[[int], Session]]:
    """Return the same for ranks that import JAX first."""
    pytest.importorskip("jax")
    with _sessions("jax", {}, "jax") as of:
        yield of


@pytest.fixture(scope="session")
def keras_jax_ranks() -> Iterator[Callable[[int], Session]]:
    """Return the same for ranks whose Keras is on JAX, and which are JAX's processes."""
    pytest.importorskip("jax")

    def begin(session: Session) -> None:
        # JAX's processes begin before it computes.
        if len(session.ranks) > 1:
            session.run("import jax; jax.distributed.initialize()", timeout_s=100)

    with _sessions("keras-jax", {"KERAS_BACKEND": "jax"}, "jax", begin) as of:
        yield of


@contextmanager
def _sessions(
    name: str, environment: dict[str, str], framework: str = "torch", begin: Callable[[Session], None] | None = None
) -> Iterator[Callable[[int], Session]]:
    sessions: dict[int, Session] = {}
    with ExitStack() as stack:

        def of(n: int) -> Session:
            session = sessions.get(n)
            if session is not None and session.state is not None:
                # Ranks that a test before this one lost are replaced: its failure is told there, and not here.
                with suppress(ClusterLost):
                    session.wait_rebuilt()
            if session is None or session.state is not None:
                session = sessions[n] = jupyter_ddl.start(n=n, name=f"{name}-{n}", framework=framework, env=environment)
                stack.callback(session.stop)
                if begin is not None:
                    begin(session)
            return session

        yield of


@pytest.fixture
def torch_pair(torch_ranks: Callable[[int], Session]) -> Session:
    """Return a session of two ranks."""
    return torch_ranks(2)


@pytest.fixture
def keras_pair(keras_ranks: Callable[[int], Session]) -> Session:
    """Return a session of two ranks whose Keras is on PyTorch."""
    return keras_ranks(2)


@pytest.fixture
def jax_pair(jax_ranks: Callable[[int], Session]) -> Session:
    """Return a session of two ranks that import JAX first."""
    return jax_ranks(2)
