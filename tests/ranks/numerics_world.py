"""The findings of a numerics program, for tests: from an MPI job of its own, or from ranks that are there."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranks.mpirun import run_program

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from jupyter_ddl.kernel.session import Session

HERE = Path(__file__).parent
TIMEOUT_S = 285.0
_worlds: dict[tuple[str, int], World] = {}


class World:
    """What every rank found.

    Args:
        run: runs the program on n ranks, in an MPI job of its own if nothing else is said.
    """

    def __init__(
        self,
        program: str,
        n: int,
        folder: Path,
        timeout_s: float = TIMEOUT_S,
        run: Callable[[Path, int, Path, float], list[dict[str, Any]]] = run_program,
    ) -> None:
        self.size = n
        self.folder = folder
        (path,) = HERE.rglob(program)
        self.ranks = run(path, n, folder, timeout_s)

    def every(self, finding: str) -> list[Any]:
        """Return the finding, a rank at a time."""
        raised = {i: rank[finding]["raised"] for i, rank in enumerate(self.ranks) if "raised" in rank[finding]}
        assert not raised, "\n".join(f"rank {i} of {self.size}, {finding}:\n{text}" for i, text in raised.items())
        return [rank[finding]["found"] for rank in self.ranks]

    def one(self, finding: str) -> Any:
        """Return what every rank found, where all must have found the same."""
        first, *others = self.every(finding)
        assert all(other == first for other in others), self.every(finding)
        return first


def world_of(program: str, n: int, factory: pytest.TempPathFactory) -> World:
    """Return what `program` found on n ranks; it runs once in a session."""
    if (program, n) not in _worlds:
        _worlds[program, n] = World(program, n, factory.mktemp(f"{Path(program).stem}-{n}"))
    return _worlds[program, n]


def world_on(session: Session, program: str, factory: pytest.TempPathFactory) -> World:
    """Return what `program` found on the ranks of a session; it runs once in a session of tests."""
    n = session.world_size
    if (program, n) not in _worlds:
        folder = factory.mktemp(f"{Path(program).stem}-{n}")
        _worlds[program, n] = World(program, n, folder, run=partial(run_within, session))
    return _worlds[program, n]


def run_within(session: Session, program: Path, n: int, folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    """Do what `run_program` does, on ranks that have imported TensorFlow already."""
    runner = str(HERE / "numerics_on_ranks.py")
    session.run(
        f"import jupyter_ddl.keras, runpy\nrunpy.run_path({runner!r})['run']({str(program)!r}, {str(folder)!r})",
        timeout_s=timeout_s,
        sample_every_s=None,
    )
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(n)]
