"""What each of several hosts has for the exchange between ranks is read there, and is in the runs' records."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ranks.kernels import Kernel, without
from systems.rig import ADDRESSES, NODES, Rig, environment

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

SHOWN = """
import json, pathlib
import jupyter_ddl
from jupyter_ddl.views.topology import topology_text
s = jupyter_ddl.start(hosts='nodea:2,nodeb:1', ssh={ssh!r}, env={env!r})
text = topology_text(s.topology())
ran = s.run('1')
s.stop()
answer = text, json.loads((pathlib.Path(ran.folder) / 'run.json').read_text())['topology']
"""


def test_each_hosts_interfaces_are_shown_and_in_the_records_of_cells_and_scripts(hosts: Rig, login: Kernel) -> None:
    folder = hosts.folder / "bare"
    folder.mkdir()
    bare = without(folder, "tensorflow")
    text, of_cell = login.do(SHOWN.format(ssh=hosts.ssh, env=bare))
    assert "nodea, nodeb: no GPU: NVML" in text
    for node in NODES:
        assert f"{node}  eth0       {ADDRESSES[node]}" in text
    (folder / "nothing.py").write_text("import mpi4py.MPI\n")
    script = (sys.executable, "-m", "jupyter_ddl.cli", "run", "-H", "nodea:2,nodeb:1", "--ssh", hosts.ssh)
    # A host's /tmp is its own.
    runs = folder / "runs"
    done = subprocess.run(
        [*hosts.enter("login"), *script, folder / "nothing.py"],
        env={**environment(hosts), **bare, "JUPYTER_DDL_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = runs.iterdir()
    of_script = json.loads((run / "run.json").read_text())["topology"]
    assert of_script == of_cell
    assert [one["hosts"] for one in of_cell["gpus"]] == [list(NODES)]
    for node in NODES:
        assert ("eth0", ADDRESSES[node]) in {(one["name"], one["address"]) for one in of_cell["interfaces"][node]}
