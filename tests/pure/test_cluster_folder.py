"""A cluster's folder: this user's, this host's, and no bad one of them hides another; nothing else is ever removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from users import STRANGER, as_user, needs_root

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.cluster import finding, lease_process, occupancy, registry, scratch, starting
from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.cluster.folder import ClusterFolder, ending_of
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import FolderNotPrivate, FolderNotWritable, HostUnfit, NoCluster
from jupyter_ddl.host import process_identity, run_module
from jupyter_ddl.host.preflight import check_surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(60)

SPEC = ClusterSpec("good", 2, (), 1, {}, keep=True, oversubscribe=False, note="")
SETTINGS = {"kernel_pid": 4711, "world_id": "w"}


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/runtime")
        yield Path(made) / "runtime"


def running(name: str) -> ClusterFolder:
    """Make the folder of a cluster whose lease is this process."""
    folder = ClusterFolder(name)
    folder.create(replace(SPEC, name=name), SETTINGS)
    folder.write_lease()
    return folder


def names() -> list[str]:
    return [folder.name for folder in folders.running()]


# --- one bad file ----------------------------------------------------------------------------------------------------

OWN = process_identity.own()
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
    assert occupancy.on_shared_cores(replace(SPEC, name="other")) != {}
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
    assert occupancy.on_shared_cores(replace(SPEC, name="other")) == {}


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


# --- another user ----------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder that a stranger can write to."""
    needs_root()
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        Path(made).chmod(0o1777)
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/ddl")
        yield Path(made)


# S1: what a local user plants in a runtime folder that was made before its owner came to it.
def plant(runtime: Path, thesis: Path, mode: int) -> None:
    place = runtime / "clusters" / registry.here().name
    for name in ("default", "planted"):
        folder = place / name
        folder.mkdir(parents=True)
        command = ["/bin/sh", "-c", f"id > {runtime}/PWNED", "sh"]
        planted = {
            "spec": json.loads(replace(SPEC, name=name).to_json()),
            **SETTINGS,
            "command": command,
            "environment": {},
            "scratch": {"TMPDIR": str(thesis), "OMPI_MCA_btl_sm_backing_directory": str(thesis)},
        }
        (folder / "cluster.json").write_text(json.dumps(planted))
        (folder / "lease.json").write_text(json.dumps(OWN))
    for folder in (place, place.parent, runtime):
        folder.chmod(mode)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755])
def test_a_runtime_folder_that_a_stranger_made_is_refused(shared: Path, mode: int) -> None:
    thesis = shared / "thesis"
    thesis.mkdir(mode=0o700)
    (thesis / "chapter-1.tex").write_text("mine")
    runtime = shared / "ddl"
    as_user(STRANGER, lambda: plant(runtime, thesis, mode))
    for attempt in (
        lambda: jupyter_ddl.start(n=1),
        lambda: jupyter_ddl.start(n=1, name="another"),
        lambda: jupyter_ddl.attach("default"),
        check_surroundings,
    ):
        with pytest.raises(FolderNotPrivate, match=f"is user {STRANGER}'s"):
            attempt()
    # Nor is what is planted there believed by those who only look.
    assert names() == []
    assert list(folders.kept()) == []
    assert list(registry.elsewhere()) == []
    assert ClusterFolder("default").lease() is None
    assert ClusterFolder("default").settings() == {}
    assert (thesis / "chapter-1.tex").read_text() == "mine"
    assert not (runtime / "PWNED").exists()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_runtime_folder_of_ones_own_that_is_open_is_refused(shared: Path, mode: int) -> None:
    running("good")
    (shared / "ddl").chmod(mode)
    if mode == 0o775:
        os.chown(shared / "ddl", 0, STRANGER)
    # (b) of S1: who can write there can put another folder in the place of this one while it starts.
    for attempt in (lambda: jupyter_ddl.start(n=1), lambda: jupyter_ddl.attach("good")):
        with pytest.raises(FolderNotPrivate, match="can write to"):
            attempt()
    assert ClusterFolder("good").lease() is None


def test_a_file_that_a_stranger_owns_is_not_believed() -> None:
    needs_root()
    folder = running("good")
    os.chown(folder.path / "lease.json", STRANGER, STRANGER)
    assert folder.lease() is None
    os.chown(folder.path / "lease.json", 0, 0)
    os.chown(folder.path / "cluster.json", STRANGER, STRANGER)
    assert folder.settings() == {}
    assert names() == []


def test_a_folder_that_cannot_be_made_anew_is_told(runtime: Path) -> None:
    folder = ClusterFolder("good")
    folder.path.parent.mkdir(parents=True)
    folder.path.touch()
    with pytest.raises(FolderNotWritable, match="File exists"):
        folder.create(SPEC, SETTINGS)


# --- temporary folders -----------------------------------------------------------------------------------------------

BACKING = "OMPI_MCA_btl_sm_backing_directory"


@pytest.fixture
def own_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


def test_what_a_world_left_is_removed_and_what_is_the_users_stays(own_tmp: Path) -> None:
    made = scratch.make({})
    temporary, shared = Path(made["TMPDIR"]), Path(made[BACKING])
    assert temporary.parent == own_tmp
    for name in ("ompi.host.0", "prte.host", "__pycache__"):
        (temporary / name / "deep").mkdir(parents=True)
    (temporary / "pmix-1").touch()
    (temporary / "ompi.link").symlink_to(own_tmp)
    (temporary / "mine.csv").touch()
    (shared / "segment").touch()
    scratch.clear(made)
    assert [path.name for path in temporary.iterdir()] == ["mine.csv"]
    assert not shared.exists()
    assert own_tmp.exists()
    (temporary / "mine.csv").unlink()
    scratch.clear(made)
    scratch.clear(made)
    assert not temporary.exists()


@pytest.mark.parametrize("has_room", [True, False])
def test_a_hosts_ranks_share_files_where_there_is_no_shared_memory(
    has_room: bool, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(scratch, "has_shared_memory", lambda ranks: asked.append(ranks) or has_room)
    name = f"room{os.getpid()}"
    first, second = (scratch.make_named({"OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, name) for _ in range(2))
    assert asked == [3]
    assert first == second
    memory = Path(first[BACKING])
    assert memory == (Path("/dev/shm") / f"jupyter_ddl-{name}" if has_room else own_tmp / f"jupyter_ddl-{name}_memory")
    (memory / "segment").touch()
    (Path(first["TMPDIR"]) / "mine.csv").touch()
    # The witness clears what it made, and the lease what it knows by name.
    scratch.clear(first if has_room else scratch.named(name))
    assert not memory.exists()
    assert [path.name for path in Path(first["TMPDIR"]).iterdir()] == ["mine.csv"]


def not_ours(own_tmp: Path) -> dict[str, Path]:
    """Return folders that no world of ours made, each with something in it."""
    made = {
        "elsewhere": own_tmp / "home" / "jupyter_ddl-abcdefgh",
        "of another name": own_tmp / "thesis",
        "of a cache": own_tmp / "jupyter_ddl-cache-0-host-1-2",
        "by a way round": own_tmp / "home" / ".." / "jupyter_ddl-roundabt",
        "by a link": own_tmp / "jupyter_ddl-linklink",
        "the place itself": own_tmp,
        "in a folder of ours": own_tmp / "jupyter_ddl-abcdefgh" / "jupyter_ddl-abcdefgh",
        "of a stranger": own_tmp / "jupyter_ddl-stranger",
    }
    (own_tmp / "home").mkdir()
    (own_tmp / "linked").mkdir()
    (own_tmp / "jupyter_ddl-linklink").symlink_to(own_tmp / "linked")
    for path in made.values():
        path.mkdir(parents=True, exist_ok=True)
        (path / "ompi.thesis").write_text("mine")
    if os.geteuid() == 0:
        os.chown(made["of a stranger"], STRANGER, STRANGER)
    return made


@pytest.mark.parametrize("variable", ["TMPDIR", BACKING, "OMPI_MCA_btl_vader_backing_directory", "HOME"])
def test_nothing_else_is_ever_removed(variable: str, own_tmp: Path) -> None:
    made = not_ours(own_tmp)
    if os.geteuid() != 0:
        del made["of a stranger"]
    for path in made.values():
        scratch.clear({variable: str(path)})
        scratch.clear({variable: f"{path}/"})
        scratch.clear({variable: os.path.relpath(path)})
    assert all((path / "ompi.thesis").read_text() == "mine" for path in made.values())


@pytest.mark.parametrize("variables", [None, [], "text", 1, {"TMPDIR": 3}, {BACKING: None}, {BACKING: ["/"]}, {1: "/"}])
def test_whatever_a_file_says_of_temporary_folders(variables: object, own_tmp: Path) -> None:
    scratch.clear(variables)
    assert own_tmp.exists()


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
