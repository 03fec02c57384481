"""A lease on another host is reached through a process of ours, which says how it ended where SSH cannot."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cluster import mirrors, through_ssh
from jupyter_ddl.cluster.lease_process import LOST
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.host import run_module
from jupyter_ddl.launch.place import HERE, HostSlots, Place
from jupyter_ddl.launch.surveyed import Surveyed
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.idle_stop import IdleStop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDED = json.loads(json.dumps(asdict(Fault("lost", "mpiexec", at_s=1.0))))
BEGUN = 'echo \'{"begun": "/clusters/a"}\''


class Link:
    """The process between a kernel and a script of sh that stands for ssh."""

    def __init__(self, script: str, keep: str = "end", mirror: str = "") -> None:
        self.process = subprocess.Popen(
            run_module.command("jupyter_ddl.cluster.head_link", "nodea", keep, mirror, "/bin/sh", "-c", script),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    def read(self) -> dict[str, object]:
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, dict)
        return answer


@pytest.fixture
def links() -> Iterator[list[Link]]:
    made: list[Link] = []
    yield made
    for one in made:
        one.process.kill()
        with one.process:
            pass


def test_what_kernel_and_lease_write_is_passed_on(links: list[Link]) -> None:
    # As a lease does: it ends when it is asked to, and says how.
    links.append(Link(f"read order; echo \"$order\"; {BEGUN}; read asked; echo '{json.dumps(ENDED)}'; exit 0"))
    links[0].write(b'{"order": 1}')
    assert links[0].read() == {"order": 1}
    assert links[0].read() == {"begun": "/clusters/a"}
    links[0].write(b"stop")
    assert links[0].read() == ENDED
    assert links[0].process.wait(30) == 0


@pytest.mark.parametrize(
    ("script", "said"),
    [
        # Before it has begun the kernel reads ssh's words as those of a survey.
        ("echo 'Permission denied' >&2; exit 255", {"unreached": 255, "said": "Permission denied\n"}),
        # What a login prints is none of them.
        (
            f"echo Hi >&2; sleep 0.2; {BEGUN}; sleep 0.2; echo 'Timeout, server\n nodea not responding.' >&2; exit 255",
            ("connection", "Timeout, server nodea not responding."),
        ),
        (f"{BEGUN}; kill -9 $$", ("connection", "ssh was ended by signal 9")),
        (f"{BEGUN}; exit 255", ("lease", "")),
    ],
)
def test_how_the_connection_ends_is_said_where_the_lease_does_not(
    links: list[Link], script: str, said: dict[str, object] | tuple[str, str]
) -> None:
    links.append(Link(script))
    found = links[0].read()
    if "begun" in found:
        found = links[0].read()
    if isinstance(said, tuple):
        facts = found["facts"]
        assert isinstance(facts, dict)
        assert (found["kind"], found["subject"], facts["error"]) == ("lost", *said)
    else:
        assert found == said


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_lease_that_does_not_answer_is_not_waited_for(links: list[Link], *, is_kept: bool) -> None:
    links.append(Link(f"{BEGUN}; exec sleep 600", "keep" if is_kept else "end"))
    assert "begun" in links[0].read()
    assert links[0].process.stdin is not None
    if is_kept:
        # The kernel is gone, and its ranks stay.
        links[0].process.stdin.close()
    else:
        lost = Fault("lost", "host", (2, 3), "nodea", 1.0)
        links[0].write(LOST + json.dumps(asdict(lost)).encode())
        assert links[0].read() == json.loads(json.dumps(asdict(lost)))
    assert links[0].process.wait(30) == 0


def test_idle_ranks_are_ended_where_no_folder_is_shared(
    links: list[Link], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    mirror = mirrors.of("a", "nodea")
    idle_stop = IdleStop(1.0, "--idle-stop 1s")
    spec = ClusterSpec("a", 2, (), 1, {}, keep=False, oversubscribe=False, note="", idle_stop=idle_stop)
    mirror.create(spec, {"world_id": "w1", "kernel_pid": 4711})
    mirror.connection_file.touch()
    # As a lease does: it ends when it is asked to, and says so.
    ends = 'while read -r line; do case "$line" in lost*) echo "${line#lost }"; exit 0;; esac; done'
    links.append(Link(f"{BEGUN}; {ends}", mirror=str(mirror.path)))
    assert links[0].read() == {"begun": "/clusters/a"}
    said = links[0].read()
    assert (said["kind"], said["subject"]) == ("stopped", "idle")
    assert links[0].process.wait(30) == 0
    assert not mirror.path.exists()


def test_a_link_that_is_killed_closes_the_input_of_ssh(links: list[Link]) -> None:
    links.append(Link(f"{BEGUN}; cat >/dev/null; exit 0"))
    assert "begun" in links[0].read()
    links[0].process.send_signal(signal.SIGKILL)
    # What stands for ssh holds the other end until it has ended.
    assert links[0].process.stdout is not None
    assert links[0].process.stdout.readline() == b""


def test_which_hosts_start_through_ssh() -> None:
    two = Place("hosts", (HostSlots("nodea", 2), HostSlots("nodeb", 2)))
    reached = [Surveyed(host, host, "10.0.0.1", 0.0, {}) for host in ("nodea", "nodeb")]
    one_not = [reached[0], replace(reached[1], unreached="10.0.0.9:5 from there: timed out")]
    assert not through_ssh.is_needed(two, reached)
    assert through_ssh.is_needed(two, one_not)
    # A restart does not try again.
    assert through_ssh.is_needed(replace(two, through_ssh=True), reached)
    # This host is one of them: the others could not reach ranks here either.
    assert not through_ssh.is_needed(two, [*one_not, replace(reached[0], address="")])
    # A job's hosts, a kernel in an image, and this host alone.
    assert not through_ssh.is_needed(replace(two, kind="slurm", job="12"), one_not)
    assert not through_ssh.is_needed(replace(two, container="x.sif", is_inside=True), one_not)
    assert not through_ssh.is_needed(HERE, [])
