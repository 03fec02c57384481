"""A cluster's folder: this user's, this host's, and no bad one of them hides another; nothing else is ever removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from own_clusters import OWN, SETTINGS, SPEC, names, running

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.cluster import finding, lease_process, occupancy, registry, starting
from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.cluster.folder import ClusterFolder, ending_of
from jupyter_ddl.errors import HostUnfit, NoCluster
from jupyter_ddl.host import process_identity, run_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(60)


# --- one bad file ----------------------------------------------------------------------------------------------------

BAD_LEASES = {
    "empty": b"",
    "cut": b'{"pid": 12',
    "null": b"null",
    "a list": b"[1]",
    "a number": b"7",
    "deep": b"[" * 100_000,
    "bytes": b"\xff\xfe\x00",
    "no pid": b"{}",
    "pid of text": json.dumps({**OWN, "pid": "x"}).encode(),
    "pid of 400 digits": json.dumps({**OWN, "pid": 10**400}).encode(),
    "no start": json.dumps({"pid": os.getpid()}).encode(),
    "start of NaN": b'{"pid": 1, "create_time": NaN}',
    "old, of text": b'{"pid": 1, "create_time": "x"}',
    "boot of a list": json.dumps({**OWN, "boot": []}).encode(),
}
INSTEAD: dict[str, Callable[[Path], Any]] = {
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": lambda path: path.mkdir(),
}


def all_is_listed() -> None:
    """Check that the good cluster is found by all who look for clusters."""
    assert names() == ["good"]
    assert [folder.name for folder in folders.kept()] == ["good"]
    occupancy.check_free(replace(SPEC, name="other", devices=("0",)))
    with pytest.raises(NoCluster, match="Received: 'nothing'; running: good"):
        jupyter_ddl.attach("nothing")


@pytest.mark.parametrize("form", BAD_LEASES)
def test_a_lease_that_says_nothing_hides_no_cluster(form: str) -> None:
    running("good")
    bad = running("bad")
    (bad.path / "lease.json").write_bytes(BAD_LEASES[form])
    assert bad.lease() is None
    all_is_listed()


@pytest.mark.parametrize("name", ["lease.json", "cluster.json", "ended.json"])
@pytest.mark.parametrize("kind", INSTEAD)
def test_what_is_in_a_files_place_hides_no_cluster(kind: str, name: str) -> None:
    running("good")
    bad = running("bad")
    (bad.path / name).unlink(missing_ok=True)
    INSTEAD[kind](bad.path / name)
    assert bad.ending() is None
    if name == "ended.json":
        assert names() == ["bad", "good"]
        return
    all_is_listed()


@pytest.mark.parametrize("kind", [*INSTEAD, "a file"])
def test_what_is_no_folder_hides_no_cluster(kind: str) -> None:
    good = running("good")
    for where in (good.path.parent, good.path.parent.parent):
        place = where / ".nfs0001"
        (INSTEAD.get(kind) or Path.touch)(place)
    all_is_listed()


@pytest.mark.parametrize(
    "content",
    [{}, {"spec": None}, {"spec": []}, {"spec": {"n": 1}}, {"spec": {**json.loads(SPEC.to_json()), "devices": 3}}],
)
def test_a_running_cluster_that_says_nothing_of_itself_is_named(content: dict[str, Any]) -> None:
    running("good")
    bad = running("bad")
    (bad.path / "cluster.json").write_text(json.dumps(content))
    all_is_listed()
    with pytest.raises(NoCluster) as caught:
        jupyter_ddl.attach("bad")
    assert str(caught.value) == (
        f"A cluster's folder must say what it is, and {bad.path / 'cluster.json'} does not. Received: 'bad'; running: "
        f"good. End it with `kill {os.getpid()}`, and start one with %ddl start --name bad."
    )


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"asked": 1}', b'{"death": [1]}', b"[" * 100_000])
def test_an_ending_that_says_nothing_is_none(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ending_of(text)


# --- another host ----------------------------------------------------------------------------------------------------


@pytest.fixture
def on_node_b(runtime: Path) -> Iterator[Path]:
    """Make the folder of a cluster "good" on another host, with a process that holds its lock; give its path."""
    folder = registry.here().with_name("node-b-0badcafe") / "good"
    folder.mkdir(mode=0o700, parents=True)
    spec = json.loads(replace(SPEC, name="good").to_json())
    (folder / "cluster.json").write_text(json.dumps({"spec": spec, **SETTINGS}))
    (folder / "lease.json").write_text(json.dumps({**OWN, "host": "node-b", "boot": "of-b", "pid": os.getpid()}))
    program = (
        "import sys; from pathlib import Path; from jupyter_ddl.cluster.registry import hold_lock\n"
        "hold_lock(Path(sys.argv[1])); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lease:
        assert lease.stdout is not None
        assert lease.stdout.readline() == b"held\n"
        yield folder
        lease.kill()


def test_each_host_has_a_folder_of_its_own(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = registry.here()
    assert here.parent == paths.clusters_dir()
    assert here.name.startswith(OWN["host"])
    for change in ({"boot": "another"}, {"pid_namespace": "pid:[1]"}):
        with monkeypatch.context() as patch:
            patch.setattr(process_identity, "here", lambda change=change: {**OWN, **change})
            assert registry.here() != here
    # A host that gets another name keeps its clusters.
    running("good")
    monkeypatch.setattr(process_identity, "here", lambda: {**OWN, "host": "renamed/../x"})
    assert registry.here() == here
    monkeypatch.setattr(process_identity, "here", lambda: {**OWN, "host": "../x y", "boot": "another"})
    assert registry.here().parent == here.parent


def test_another_hosts_cluster_is_told_and_not_touched(on_node_b: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(registry.elsewhere()) == [("good", "node-b")]
    assert names() == []
    with pytest.raises(NoCluster) as caught:
        finding.named("good")
    assert str(caught.value) == (
        "A cluster whose ranks are all on its own host is used there: it listens on loopback alone. Received: 'good'; "
        "running: none; on other hosts: good on node-b. Use a kernel on node-b, or start one here with %ddl start "
        "--name good."
    )
    settings = json.loads((on_node_b / "cluster.json").read_text())
    (on_node_b / "cluster.json").write_text(json.dumps({**settings, "address": "10.0.0.1"}))
    found = finding.named("good")
    assert found.path == on_node_b
    assert found.is_elsewhere
    assert found.runs()
    with pytest.raises(NoCluster) as caught:
        finding.named("other")
    assert str(caught.value) == (
        "A cluster must run to be attached to. Received: 'other'; running: none; on other hosts: good on node-b. "
        "Start one with %ddl start --name other."
    )
    third = on_node_b.parent.with_name("node-c-0badcafe") / "good"
    third.mkdir(mode=0o700, parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(registry, "host_of", lambda path: path.parent.name.split("-0")[0])
        said = str(folders.not_found(ClusterFolder("good")))
    assert said == (
        "Of several clusters of one name that run on other hosts, a job's number says which. Received: 'good'; "
        "running: none; on other hosts: good on node-b, good on node-c. %ddl jobs has the numbers. "
        "Or use a kernel on node-b."
    )
    # One of the same name here: neither its making nor its end touches the other's.
    here = running("good")
    assert names() == ["good"]
    here.remove()
    assert (on_node_b / "lease.json").exists()
    assert list(folders.running()) == []


def test_another_hosts_cluster_that_has_ended_is_not_told(on_node_b: Path) -> None:
    (on_node_b / "lease.lock").unlink()
    (on_node_b / "lease.lock").touch()
    assert list(registry.elsewhere()) == []


@pytest.mark.parametrize("form", BAD_LEASES)
def test_whatever_another_hosts_lease_says(form: str, on_node_b: Path) -> None:
    (on_node_b / "lease.json").write_bytes(BAD_LEASES[form])
    assert {name for name, _ in registry.elsewhere()} <= {"good"}


def test_a_lease_is_the_same_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = running("good")
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: real(process) + 1.0)
    assert folder.lease() is not None
    assert names() == ["good"]


# --- the start -------------------------------------------------------------------------------------------------------


def test_a_lease_that_could_not_say_why_is_told_by_what_it_printed() -> None:
    folder = ClusterFolder("good")
    folder.create(SPEC, {"kernel_pid": os.getpid()})
    lease = lease_process.start(folder)
    assert lease.wait(30) != 0
    told = lease_process.last_words(folder)
    assert told.startswith("its lease ended before it could say why; it printed last:\n")
    assert "KeyError" in told
    for stream in (lease.stdin, lease.stdout):
        assert stream is not None
        stream.close()
    folder.remove()
    assert lease_process.last_words(folder) == "its lease ended before it could say why"


NAMES = "random json queue statistics string copy socket asyncio logging platform numbers secrets select signal psutil"


def test_a_module_of_ours_starts_beside_files_of_pythons_names(tmp_path: Path) -> None:
    for name in NAMES.split():
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('the wrong {name}')")
    # The reaper's standard input stays open until it has ended: its end would end the program.
    with (
        Path(os.devnull).open() as given,
        subprocess.Popen(
            run_module.command("jupyter_ddl.script.reaper", str(given.fileno()), str(tmp_path), "/bin/echo", "held"),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(given.fileno(),),
        ) as held,
    ):
        assert held.stdout is not None
        assert held.stdout.read() == b"held\n"
        assert held.wait(30) == 0


def test_the_working_folder_is_behind_pythons_own_and_what_the_user_asked_for_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 5")
    (tmp_path / "random.py").write_text("raise ImportError('the wrong random')")
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "for_it.py").write_text("y = 6")
    (tmp_path / "program.py").write_text(
        "import sys; sys.path.insert(0, '')\n"
        "from jupyter_ddl.host.run_module import hide_working_folder, show_working_folder\n"
        "hide_working_folder(); import random, statistics\n"
        "try:\n    import mine\n    print('too early')\nexcept ImportError:\n    pass\n"
        "show_working_folder(); import mine, for_it, fractions; print(mine.x, for_it.y, sys.path.count(''))\n"
    )
    asked = os.pathsep.join([str(tmp_path / "asked"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", "exec(open('program.py').read())"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "5 6 1\n", done.stderr


def test_a_working_folder_that_was_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(HostUnfit) as caught:
        starting.start(SPEC)
    assert str(caught.value) == (
        "Ranks need the working folder that their kernel has. Received: none (No such file or directory: it was "
        "removed, or moved). Go to one that is there: `%cd ~`, or os.chdir(...)."
    )
