"""One server for all that needs nothing of its own of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hub_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("hub")) as server:
        yield server
