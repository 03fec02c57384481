"""At which world sizes a fault is tried: 2 in every run of the tests, 4 in the slow ones."""

from __future__ import annotations

import pytest

TWO_AND_FOUR = [2, pytest.param(4, marks=pytest.mark.slow)]
