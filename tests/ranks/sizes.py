"""What a test runs with: 2 ranks and few cases always; other world sizes and the other cases in the slow tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

SLOW_4 = pytest.param(4, marks=pytest.mark.slow)
TWO_AND_FOUR = [2, SLOW_4]
OF_ANY = [pytest.param(1, marks=pytest.mark.slow), 2, SLOW_4]


def slow_but(quick: Collection[str], cases: Iterable[str]) -> list[object]:
    """Return the cases as parameters, those that are not quick for the slow tests only."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]
