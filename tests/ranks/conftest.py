"""Real MPI ranks, shared between tests: one cluster a world size."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from ranks import kernels, sizes
from ranks.kernel import Kernel
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.errors import ClusterLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session


@contextmanager
def _sessions(name: str, environment: dict[str, str]) -> Iterator[Callable[[int], Session]]:
    sessions: dict[int, Session] = {}
    with ExitStack() as stack:

        def of(n: int) -> Session:
            session = sessions.get(n)
            if session is not None and session.state is not None:
                # Ranks that a test before this one lost are replaced: its failure is told there, and not here.
                with suppress(ClusterLost):
                    session.wait_rebuilt()
            if session is None or session.state is not None:
                session = sessions[n] = jupyter_ddl.start(n=n, name=f"{name}-{n}", env=environment)
                stack.callback(session.stop)
            return session

        yield of


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], Session]]:
    """Return a function from a world size to a running session of that size, started when first asked for."""
    with _sessions("tests", {}) as of:
        yield of


@pytest.fixture(scope="session")
def bare_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Session]]:
    """Return the same for ranks that have no TensorFlow to import: tests may lose them, new ones start in a second."""
    with _sessions("bare", without(tmp_path_factory.mktemp("without"), "tensorflow")) as of:
        yield of


@pytest.fixture
def bare(bare_ranks: Callable[[int], Session]) -> Session:
    """Return a session of two ranks that have no TensorFlow to import."""
    return bare_ranks(2)


@pytest.fixture(params=sizes.OF_ANY)
def session(request: pytest.FixtureRequest, ranks: Callable[[int], Session]) -> Session:
    """Return a session of each world size in turn: the same assertions hold at every one."""
    return ranks(request.param)


@pytest.fixture
def pair(ranks: Callable[[int], Session]) -> Session:
    """Return a session of two ranks."""
    return ranks(2)


@pytest.fixture(scope="session")
def notebooks() -> Iterator[Callable[[int], Kernel]]:
    """Return a function from a world size to a real kernel with such ranks, started when first asked for."""
    kernels: dict[int, Kernel] = {}
    with ExitStack() as stack:

        def of(n: int) -> Kernel:
            if n not in kernels:
                kernels[n] = kernel = Kernel()
                stack.callback(kernel.stop)
                started = kernel.execute(f"%ddl start -n {n} --name notebook-{n}")
                assert started.error is None, started.told
                stack.callback(kernel.execute, "%ddl stop")
            return kernels[n]

        yield of


@pytest.fixture(scope="session")
def notebook(notebooks: Callable[[int], Kernel]) -> Kernel:
    """Return a real kernel with two ranks."""
    return notebooks(2)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[kernels.Kernel]:
    """Give another kernel, of no Jupyter server, whose ranks have no TensorFlow to import."""
    with kernels.kernel(without(tmp_path, "tensorflow")) as made:
        yield made


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system with room for 256 KB, where the runs go."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(disk))
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
