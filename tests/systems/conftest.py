"""Hosts for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from systems import batch, rig

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def hosts() -> Iterator[rig.Rig]:
    with rig.rig() as made:
        yield made


@pytest.fixture(scope="session")
def slurm(hosts: rig.Rig) -> Iterator[batch.Slurm]:
    with batch.slurm(hosts) as made:
        yield made
