"""Hosts for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, kernel
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


@pytest.fixture
def login(hosts: rig.Rig) -> Iterator[Kernel]:
    """A kernel on the login node."""
    with kernel(dict(rig.environment(hosts)), within=hosts.enter("login")) as other:
        yield other
