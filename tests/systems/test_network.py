"""The doctor measures the exchange between ranks on several hosts, and names the link that is slow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from systems.rig import Rig, environment

pytestmark = [pytest.mark.mpi, pytest.mark.systems]


def test_the_doctor_names_the_link_that_is_slow(hosts: Rig) -> None:
    doctor = (sys.executable, "-m", "jupyter_ddl.cli", "doctor", "--network", "--json")
    where = ("-H", "nodea:2,nodeb:2,login:1", "--ssh", hosts.ssh)
    with hosts.shaped("nodeb", 400):
        done = subprocess.run(
            [*hosts.enter("login"), *doctor, *where],
            env=environment(hosts),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (check,) = [check for check in report["checks"] if check["name"] == "Link"]
    assert check["text"].startswith("nodeb to every other host: 3")
    assert {link["source"] for link in check["facts"]["links"]} == {"nodeb"}
    figures = report["figures"]
    assert [host["name"] for host in figures["hosts"]] == ["nodea", "nodeb", "login"]
    by = {level: {nic for way in figures["ways"] if way["level"] == level for nic in way["nics"]} for level in LEVELS}
    assert by == {"within a host": set(), "between hosts": {"eth0"}}
    assert [one["level"] for one in figures["allreduces"]] == [*["within a host"] * 2, "between hosts", "all"]


LEVELS = ("within a host", "between hosts")
