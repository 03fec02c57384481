"""Hosts for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from systems import rig

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def hosts() -> Iterator[rig.Rig]:
    with rig.rig() as made:
        yield made
