"""Ranks that import PyTorch first, shared between tests: one cluster a world size."""

from __future__ import annotations

from contextlib import ExitStack, suppress
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
    sessions: dict[int, Session] = {}
    with ExitStack() as stack:

        def of(n: int) -> Session:
            session = sessions.get(n)
            if session is not None and session.state is not None:
                # Ranks that a test before this one lost are replaced: its failure is told there, and not here.
                with suppress(ClusterLost):
                    session.wait_rebuilt()
            if session is None or session.state is not None:
                session = sessions[n] = jupyter_ddl.start(n=n, name=f"torch-{n}", framework="torch")
                stack.callback(session.stop)
            return session

        yield of


@pytest.fixture
def torch_pair(torch_ranks: Callable[[int], Session]) -> Session:
    """Return a session of two ranks."""
    return torch_ranks(2)
