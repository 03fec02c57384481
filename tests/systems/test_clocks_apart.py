"""Two hosts whose clocks differ by minutes: who was first holds between them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, kernel
from systems.rig import Rig, environment
from systems.test_hosts import start

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

AHEAD_S = 120
CLOCK = Path(__file__).with_name("clock_ahead")
# Rank 2 raises first, and before it is released rank 0 does.
BOTH_RAISE = """
import time
if rank != 2:
    time.sleep(0.4)
raise ValueError(rank)
"""


@pytest.fixture
def login(hosts: Rig) -> Iterator[Kernel]:
    variables = {**environment(hosts), "PYTHONPATH": f"{CLOCK}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with kernel(variables, within=hosts.enter("login")) as other:
        yield other


def test_the_first_failure_is_first_though_its_hosts_clock_is_ahead(hosts: Rig, login: Kernel) -> None:
    with hosts.clock_ahead("nodeb", AHEAD_S):
        login.do(start(hosts))
        login.do("s.run('import time; now = time.time()')")
        times = login.do("answer = s.pull('now')")
        assert times["2"] - times["0"] > AHEAD_S - 10
        with pytest.raises(KernelError, match=r"Rank 2 of 4 on nodeb"):
            login.do(f"s.run({BOTH_RAISE!r}, ranks=[0, 2])")
        failed = login.do(
            "import json, os, pathlib\n"
            "written = pathlib.Path(os.environ['JUPYTER_DDL_RUNS']).rglob('events.jsonl')\n"
            "newest = max(written, key=lambda file: file.stat().st_mtime)\n"
            "events = [json.loads(line) for line in newest.open()]\n"
            "answer = {str(event['rank']): event['at_s'] for event in events if event['type'] == 'rank_failed'}"
        )
        assert 0 < failed["0"] - failed["2"] < 10
        assert abs(time.time() - failed["2"]) < 60
        login.do("s.stop()")
