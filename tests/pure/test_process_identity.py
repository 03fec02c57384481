"""A process is named for good: no number that is given again, no clock that is set, no other host's is taken for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from jupyter_ddl.host import process_identity

if TYPE_CHECKING:
    from pathlib import Path

OWN = process_identity.own()


def test_this_process_lives() -> None:
    assert process_identity.lives(OWN) is True
    assert process_identity.of(os.getppid()) is not None
    assert OWN["host"] == socket.gethostname()


def test_it_names_the_moment_that_psutil_does() -> None:
    began_s = OWN["start_ticks"] / os.sysconf("SC_CLK_TCK") + psutil.boot_time()
    assert began_s == pytest.approx(psutil.Process().create_time(), abs=2)


def test_a_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: real(process) + 3600)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert process_identity.lives(OWN) is True
    assert process_identity.own() == OWN


def test_a_zombie_and_what_is_gone_do_not_live() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        record = process_identity.of(child.pid)
        assert process_identity.lives(record) is True
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_identity.lives(record) is False
        assert process_identity.of(child.pid) is None
    assert process_identity.lives(record) is False


def test_a_name_with_brackets_and_spaces_hides_no_start(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as child:
        try:
            found = process_identity.of(child.pid)
            assert found is not None
            assert found["start_ticks"] >= OWN["start_ticks"]
        finally:
            child.kill()


@pytest.mark.parametrize(
    "change",
    [
        {"start_ticks": OWN["start_ticks"] + 1},
        {"start_ticks": str(OWN["start_ticks"])},
        {"start_ticks": None},
        {"pid": 2**22 + 1},
        {"pid": 0},
        {"pid": -1},
        {"pid": True},
        {"pid": str(os.getpid())},
        {"pid": 10**400},
        {"pid": None},
        {"pid": [1]},
    ],
)
def test_another_number_or_another_start_is_another_process(change: dict[str, Any]) -> None:
    assert process_identity.lives({**OWN, **change}) is False


@pytest.mark.parametrize("record", [None, [], "text", 1, {}, {"host": socket.gethostname()}, {"pid": os.getpid()}])
def test_what_names_no_process_names_none_that_lives(record: object) -> None:
    assert process_identity.lives(record) is False


@pytest.mark.parametrize(
    "change",
    [{"boot": "another"}, {"pid_namespace": "pid:[1]"}, {"host": "another", "boot": "another"}, {"boot": [1]}],
)
def test_of_another_place_nothing_is_known(change: dict[str, Any]) -> None:
    assert process_identity.lives({**OWN, **change}) is None


def test_a_host_with_a_new_name_knows_its_processes() -> None:
    assert process_identity.lives({**OWN, "host": "before"}) is True


def test_what_an_earlier_version_wrote_is_read() -> None:
    record = {"pid": os.getpid(), "host": socket.gethostname(), "started_s": psutil.Process().create_time()}
    assert process_identity.lives(record) is True
    assert process_identity.lives({**record, "started_s": record["started_s"] - 100}) is False
    assert process_identity.lives({**record, "started_s": 10**400}) is False
    assert process_identity.lives({**record, "host": "another"}) is None


def test_an_earlier_boot_is_known_by_the_hosts_name() -> None:
    assert process_identity.is_of_an_earlier_boot({**OWN, "boot": "before"})
    assert not process_identity.is_of_an_earlier_boot({**OWN, "boot": "before", "host": "another"})
    assert not process_identity.is_of_an_earlier_boot(OWN)
    assert not process_identity.is_of_an_earlier_boot(None)


def test_another_pid_namespace_is_another_place() -> None:
    program = (
        "import json, sys; from jupyter_ddl.host import process_identity as p; print(p.lives(json.loads(sys.argv[1])), "
        "p.lives(p.own()))"
    )
    apart = ["unshare", "-p", "-f", "--mount-proc", "--kill-child"]
    probe = subprocess.run([*apart, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no namespace can be made here: {probe.stderr.strip()}")
    import json

    done = subprocess.run(
        [*apart, sys.executable, "-c", program, json.dumps(OWN)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None", "True"]


def test_a_sandbox_that_hides_what_names_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("_BOOT", "_NAMESPACE"):
        monkeypatch.setattr(process_identity, name, tmp_path / "none")
    record = process_identity.own()
    assert record["boot"] == f"of {socket.gethostname()}"
    assert process_identity.lives(record) is True
    assert process_identity.lives({**record, "start_ticks": 1}) is False
    assert process_identity.lives(OWN) is None
