"""The findings of a numerics program, for tests: one MPI job a program and world size, shared by all test files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranks.mpirun import run_program

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 285.0
_worlds: dict[tuple[str, int], World] = {}


class World:
    """What every rank of one MPI job found."""

    def __init__(self, program: str, n: int, folder: Path, timeout_s: float = TIMEOUT_S) -> None:
        self.size = n
        self.folder = folder
        (path,) = HERE.rglob(program)
        self.ranks = run_program(path, n, folder, timeout_s)

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
