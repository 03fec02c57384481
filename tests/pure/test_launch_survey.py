"""Hosts are looked at before ranks start: with a command in ssh's place that stays on this host."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from users import needs_root

from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.launch import call_back, remote_processes, survey, surveyed
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.remote_processes import RemoteProcesses
from jupyter_ddl.launch.surveyed import Surveyed

if TYPE_CHECKING:
    from pathlib import Path

# As ssh takes its arguments: options, the host, the command. A file of the host's name says how it is there.
REACH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1
shift
[ -e "{folder}/$host" ] && . "{folder}/$host"
exec /bin/sh -c "$*"
"""
HOST = "node-of-a-test"
CAME_BY_SSH = "SSH_CONNECTION='10.0.0.9 5 10.0.0.1 22'; export SSH_CONNECTION"


def place(folder: Path, there: str = "") -> Place:
    """Return a place of one host, where shell commands run at each login."""
    reach = folder / "reach"
    reach.write_text(REACH.format(folder=folder))
    reach.chmod(0o755)
    (folder / HOST).write_text(there)
    return Place("hosts", (HostSlots(HOST, 2),), str(reach))


def look(folder: Path, there: str = "", given_up: threading.Event | None = None) -> Surveyed:
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    mpiexec = folder / "reach"
    (found,) = survey.survey(place(folder, there), mpiexec, (shared,), given_up)
    assert list(shared.iterdir()) == []
    return found


def test_a_host_says_what_it_has(tmp_path: Path) -> None:
    # What a login prints comes before it.
    found = look(tmp_path, f"echo Welcome; echo '{{}}'; {CAME_BY_SSH}")
    assert (found.host, found.hostname, found.address) == (HOST, socket.gethostname(), "10.0.0.1")
    # The same clock: what the way there takes is no offset.
    assert found.clock_offset_s == 0
    assert found.versions["Python"].startswith("3.")
    assert found.versions["numpy"] != "none"
    assert found.has_folder
    assert found.temporary == tempfile.gettempdir()


def test_a_host_whose_commands_get_no_input_has_its_clock_compared_by_its_answer(tmp_path: Path) -> None:
    assert look(tmp_path, f"{CAME_BY_SSH}; exec </dev/null").clock_offset_s == 0


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("exit 122", r"must have this Python environment at the same path"),
        ("echo 'Permission denied (publickey).' >&2; exit 255", r"must let you in without a password"),
        ("exit 0", r"must run this environment's Python\. Received: it ended with status 0"),
        ("echo '[1]'; exit 0", r"must run this environment's Python\. Received: \[1\]"),
    ],
)
def test_a_host_that_cannot_run_ranks(tmp_path: Path, there: str, said: str) -> None:
    with pytest.raises(HostUnfit, match=said):
        look(tmp_path, there)


NO_KEY = "echo 'Permission denied (publickey).' >&2; exit 255"


def test_a_host_that_can_connect_back_by_an_interface(tmp_path: Path) -> None:
    with call_back.listening("lo") as towards:
        there = towards(HOST)
        assert (there.rpartition(":")[0], towards("another"), call_back.unreached(there)) == ("127.0.0.1", there, "")
    assert call_back.unreached(there) == "Connection refused"
    with pytest.raises(InvalidInput, match="must name a network interface"), call_back.listening("no0"):
        pass
    with call_back.listening(None) as towards:
        # Known to SSH alone.
        assert (towards(HOST), call_back.unreached("")) == ("", "")


def test_a_host_that_cannot_connect_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "listening", lambda _: nullcontext(lambda _: "127.0.0.1:1"))
    text = r"must be able to connect to this host\. Received: 127\.0\.0\.1:1 from there: Connection refused\. Open"
    with pytest.raises(HostUnfit, match=f"^{HOST} {text}"):
        look(tmp_path, CAME_BY_SSH)
    # Who starts ranks from elsewhere only takes note of it, or does not ask.
    one = place(tmp_path, CAME_BY_SSH)
    (found,) = survey.look(one, tmp_path / "reach", ())
    assert found.unreached == "127.0.0.1:1 from there: Connection refused"
    (found,) = survey.look(one, tmp_path / "reach", (), calls_back=False)
    assert found.unreached == ""
    # Where another host fails for good, both are said.
    (tmp_path / "b").write_text("exit 122")
    with pytest.raises(HostUnfit, match=rf"(?s)2 of 2 hosts.*- b: Every host must.*- {HOST}: .*connect to this host"):
        survey.look(replace(one, hosts=(*one.hosts, HostSlots("b", 1))), tmp_path / "reach", ())


def failing(folder: Path, **there: str) -> str:
    """Return the error of a survey of hosts; host -> what runs at each login."""
    one = place(folder, CAME_BY_SSH)
    for host, commands in there.items():
        (folder / host).write_text(commands)
    hosts = replace(one, hosts=(HostSlots(HOST, 2), *(HostSlots(host, 2) for host in there)))
    with pytest.raises(HostUnfit) as caught:
        survey.survey(hosts, folder / "reach", ())
    return str(caught.value)


def test_all_hosts_that_fail_are_in_one_error(tmp_path: Path) -> None:
    head, first, second = failing(tmp_path, b=NO_KEY, nodec="echo 'disk of nodec is full' >&2; exit 1").splitlines()
    assert head == "Every host must be fit to run ranks. Received: 2 of 3 hosts that are not. For each:"
    assert first.startswith("- b: b must let you in without a password. Received: Permission denied (publickey)")
    assert "Copy a key there (ssh-copy-id b), or load yours" in first
    assert second.startswith("- nodec: nodec must run this environment's Python. Received: disk of nodec is full. Mend")


def test_hosts_that_fail_alike_share_a_line(tmp_path: Path) -> None:
    said = failing(tmp_path, **{"n1": NO_KEY, "n2": NO_KEY, "n2.site": NO_KEY, "other": "exit 122"}).splitlines()
    assert said[0].endswith("Received: 4 of 5 hosts that are not. For each:")
    assert said[1].startswith("- n1, n2, n2.site: HOST must let you in without a password.")
    assert "(ssh-copy-id HOST)" in said[1]
    assert said[2].startswith("- other: Every host must have this Python environment at the same path.")
    assert len(said) == 3


def test_one_host_that_fails_reads_as_itself(tmp_path: Path) -> None:
    assert failing(tmp_path, b=NO_KEY).startswith("b must let you in without a password. Received: Permission denied")


def test_folders_that_are_not_shared(tmp_path: Path) -> None:
    # It sees another folder in its place.
    seen = "SSH_CONNECTION='10.0.0.9 5 10.0.0.1 22'; export SSH_CONNECTION"
    hidden = (
        f'{seen}; unshare -m sh -c \'mount -t tmpfs none {tmp_path}/shared && exec "$@"\' sh /bin/sh -c "$*"; exit $?'
    )
    needs_root()
    assert look(tmp_path, seen).shares
    assert not look(tmp_path, hidden).shares


def test_a_script_takes_hosts_that_have_its_folder() -> None:
    surveyed.check_same_folder([ONE])
    with pytest.raises(HostUnfit, match=r"so every host must have it\. Received: /.*, which a does not have"):
        surveyed.check_same_folder([ONE, replace(ONE, has_folder=False)])


def test_a_host_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "TIMEOUT_S", 0.2)
    with pytest.raises(
        HostUnfit,
        match=r"must answer\. Received: nothing within 0\.2 s\. Try in a terminal: .*reach node-of-a-test true",
    ):
        look(tmp_path, "sleep 60")


def test_a_start_that_is_cancelled_waits_for_no_host(tmp_path: Path) -> None:
    given_up = threading.Event()
    threading.Timer(0.2, given_up.set).start()
    began_s = time.monotonic()
    with pytest.raises(HostUnfit):
        look(tmp_path, "sleep 60", given_up)
    # It did not wait for the host.
    assert time.monotonic() - began_s < 30


ONE = Surveyed("a", "node-a", "", 0.0, {"Python": "3.11.7", "numpy": "2.4.6"})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(ONE, host="b"), r"Each host must be named once\. Received: b, which is node-a like another one"),
        (
            replace(ONE, host="b", hostname="node-b", versions={"Python": "3.11.7", "numpy": "2.3.1"}),
            r"must have the same versions\. Received: numpy 2\.4\.6 on a, 2\.3\.1 on b\. Install the same on b",
        ),
    ],
)
def test_hosts_that_do_not_fit_together(other: Surveyed, said: str) -> None:
    with pytest.raises(HostUnfit, match=said):
        surveyed.check_alike([ONE, other])


def test_all_hosts_that_do_not_fit_are_in_one_error() -> None:
    versions = {"Python": "3.12.1", "numpy": "2.3.1"}
    others = [replace(ONE, host=f"b{k}", hostname=f"node-b{k}", versions=versions, has_folder=False) for k in range(2)]
    with pytest.raises(HostUnfit) as caught:
        surveyed.check_alike([ONE, *others])
    head, line = str(caught.value).splitlines()
    assert head.endswith("Received: 2 of 3 hosts that are not. For each:")
    assert line == (
        "- b0, b1: All hosts must have the same versions. Received: Python 3.11.7 on a, 3.12.1 on HOST; "
        "numpy 2.4.6 on a, 2.3.1 on HOST. Install the same on HOST, or start JupyterLab from an environment that "
        "all hosts share."
    )
    with pytest.raises(HostUnfit, match=r"2 of 3 hosts that are not\. For each:\n- b0, b1: A script's ranks work in"):
        surveyed.check_same_folder([ONE, *others])


def processes_at(place: Place, *pids: int) -> RemoteProcesses:
    return RemoteProcesses(place, {"its-own-name": HOST}, {"its-own-name": pids}.__getitem__)


def test_the_state_of_a_process_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gone = 2**22 + 1
    here = processes_at(place(tmp_path, "echo Welcome 5; echo x >>asked"), 1, gone)
    assert here.state_of("its-own-name", 1) in {"S", "R", "I"}
    assert here.state_of("its-own-name", gone) == remote_processes.GONE
    assert here.state_of("its-own-name", 2) is None
    assert here.state_of("another", 1) is None
    # All of a host's processes are asked for at once.
    assert (tmp_path / "asked").read_text() == "x\n"
    silent = processes_at(place(tmp_path, "echo y >>asked; echo 'ssh: No route to host' >&2; exit 255"), 1)
    assert [silent.state_of("its-own-name", pid) for pid in (1, 2)] == [remote_processes.SILENT] * 2
    assert silent.is_silent("its-own-name")
    # Nor is a host that does not answer asked again at once.
    assert (tmp_path / "asked").read_text() == "x\ny\n"
    monkeypatch.setattr(remote_processes, "_ANSWER_S", 0.2)
    hangs = processes_at(place(tmp_path, "sleep 60"), 1)
    assert hangs.state_of("its-own-name", 1) == remote_processes.SILENT


def test_a_host_that_refuses_is_up_and_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refuses = processes_at(place(tmp_path, "echo 'connect to host there port 22: Connection refused' >&2; exit 255"), 1)
    assert refuses.state_of("its-own-name", 1) is None
    assert not refuses.is_silent("its-own-name")


def test_hosts_are_asked_at_once_and_no_longer_than_somebody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Each answers once both were asked.
    both = "echo x >>asked; until [ $(wc -l <asked) = 2 ]; do sleep 0.01; done"
    hosts = {"own-a": HOST, "own-b": f"{HOST}-b"}
    (tmp_path / hosts["own-b"]).write_text(both)
    asks = RemoteProcesses(place(tmp_path, both), hosts, lambda _: [1])
    asks.look([*hosts, "another"])
    assert {asks.state_of(host, 1) for host in hosts} <= {"S", "R", "I"}
    closed = threading.Event()
    hangs = RemoteProcesses(place(tmp_path, "sleep 60"), hosts, lambda _: [1], closed)
    threading.Timer(0.2, closed.set).start()
    began_s = time.monotonic()
    assert hangs.state_of("own-a", 1) is None
    assert time.monotonic() - began_s < 5
