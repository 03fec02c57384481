"""A profile's limit of a user's clusters: what counts, and that two which begin at one moment never both pass.

The clusters' folders are real, and this process is their lease.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from own_clusters import running

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.cluster import registry, start_claims
from jupyter_ddl.cluster.start_claims import claimed, of_cluster, of_job, of_script
from jupyter_ddl.errors import FolderNotWritable, InvalidInput
from jupyter_ddl.host import files
from jupyter_ddl.launch.profiles.limits import Allowed
from jupyter_ddl.launch.profiles.reading import read_profiles
from jupyter_ddl.protocol.codec import as_json
from jupyter_ddl.protocol.exported_job import ExportedJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROFILES = """
[one]
limits = {clusters = 1}
"""
ONE, TWO = (Allowed("class", "/etc/site.toml", clusters=most) for most in (1, 2))
# Holds a claim until its standard input ends; prints what came of it.
HOLDER = """
import sys
import time
from jupyter_ddl.cluster.start_claims import claimed, of_cluster, of_script
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.limits import Allowed

def slow():
    time.sleep(0.3)
    return {}

kind, name, most = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
claim = {"cluster": of_cluster, "script": of_script}[kind](name)
try:
    with claimed(Allowed("class", "f", clusters=int(most)), claim, slow):
        print("began", flush=True)
        sys.stdin.read()
except InvalidInput as error:
    print(error, flush=True)
"""


@pytest.fixture(autouse=True)
def own_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no claims and clusters but the test's."""
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file of the profiles above."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    file = tmp_path / "jupyter_ddl.d" / "site.toml"
    file.parent.mkdir()
    file.write_text(PROFILES)
    return file


@contextmanager
def holder(kind: str, name: str, most: int = 1) -> Iterator[subprocess.Popen[str]]:
    """Run a process that claims as soon as it gets a line, and ends with its standard input."""
    command = [sys.executable, "-c", HOLDER, kind, name, str(most)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert line_of(process) == "ready"
        yield process
        process.stdin.close()
        assert process.wait(20) in (0, -signal.SIGKILL)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def claim_files() -> list[str]:
    return [name for name in registry.names(paths.claims_dir()) if name.endswith(".claim")]


def refused(*names: str, most: Allowed = ONE) -> str:
    """Return the pattern of the error that names what runs."""
    many = f"{most.clusters} cluster{'' if most.clusters == 1 else 's'}"
    return re.escape(f"allows at most {many} of a user at a time. Received: one more; running: {', '.join(names)}.")


def test_a_start_beyond_the_limit_is_refused(site: Path) -> None:
    running("first")
    with pytest.raises(InvalidInput) as error:
        jupyter_ddl.start(n=1, gpus="none", name="more", profile="one")
    assert str(error.value) == (
        "The profile one allows at most 1 cluster of a user at a time. Received: one more; running: first. "
        "End one: %ddl attach NAME, then %ddl stop; %ddl jobs --cancel JOB for a job; Ctrl-C for a script; "
        f"{site} has the limit."
    )
    # Nothing of it is left: its folder, and its claim, would count.
    assert registry.names(registry.here()) == ["first"]
    assert claim_files() == []


def test_a_script_beyond_the_limit_is_refused(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running("first")
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('it ran')")
    assert main(["run", "-n", "1", "--gpus", "none", "--profile", "one", str(script)]) != 0
    told = capsys.readouterr().err
    assert re.search(refused("first"), told)
    assert str(site) in told
    assert claim_files() == []


def test_an_exported_notebook_beyond_the_limit_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running("first")
    monkeypatch.setenv(paths.EXPORT_VARIABLE, as_json(ExportedJob(1, "abc", None)).decode())
    with pytest.raises(InvalidInput, match=refused("first")):
        jupyter_ddl.start(n=1, gpus="none", profile="one")
    assert site.exists()


def test_what_counts() -> None:
    first, second = running("first"), running("second")
    with pytest.raises(InvalidInput, match=refused("first", "second", most=TWO)), claimed(TWO, of_cluster("third")):
        pass
    # A second one of a name is refused for its name.
    with claimed(TWO, of_cluster("second")):
        pass
    (second.path / "lease.json").unlink()
    with claimed(TWO, of_cluster("third")):
        # A cluster counts once, whether it starts or runs.
        running("third")
        with pytest.raises(InvalidInput, match=refused(first.name, "third", most=TWO)), claimed(TWO, of_script("a.py")):
            pass
    assert claim_files() == []


def test_scripts_starts_and_jobs_count_while_they_are_there_whatever_profile_they_have() -> None:
    pid = os.getpid()
    for claim, shown in (
        (of_cluster("a"), "a (starting)"),
        (of_script("/home/me/train.py"), f"train.py (script of pid {pid})"),
        (of_job("night"), "night (being submitted)"),
    ):
        with claimed(None, claim):
            (name,) = claim_files()
            assert stat.S_IMODE((paths.claims_dir() / name).stat().st_mode) == 0o600
            with pytest.raises(InvalidInput, match=refused(shown)), claimed(ONE, of_cluster("b")):
                pass
        with claimed(ONE, of_cluster("b")):
            pass
    assert stat.S_IMODE(paths.claims_dir().stat().st_mode) == 0o700


def test_without_the_limit_no_clusters_are_looked_for() -> None:
    def looked() -> dict[str, str]:
        raise AssertionError("Folders on slow file systems are read for nothing.")

    for allowed in (None, Allowed("free", "f", ranks=2)):
        with claimed(allowed, of_cluster("a"), looked):
            pass
    with pytest.raises(AssertionError, match="for nothing"), claimed(ONE, of_cluster("a"), looked):
        pass


@pytest.mark.parametrize("most", [1, 3])
def test_of_many_threads_that_start_at_one_moment_as_many_begin_as_are_allowed(most: int) -> None:
    allowed, count = Allowed("class", "f", clusters=most), 12
    at_once, all_tried, outcomes = threading.Barrier(count), threading.Barrier(count), list[str]()

    def slow() -> dict[str, str]:
        # Long enough for all others to count too, if nothing kept them from it.
        time.sleep(0.05)
        return {}

    def start(number: int) -> None:
        at_once.wait(20)
        try:
            with claimed(allowed, of_cluster(f"c{number}"), slow):
                outcomes.append("began")
                all_tried.wait(20)
        except InvalidInput:
            outcomes.append("refused")
            all_tried.wait(20)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["began"] * most + ["refused"] * (count - most)
    assert claim_files() == []


def test_of_two_processes_that_start_at_one_moment_one_begins() -> None:
    with holder("cluster", "a") as one, holder("script", "b.py") as two:
        go(one)
        go(two)
        told = sorted((line_of(one), line_of(two)))
        assert told[1] == "began"
        assert re.search(r"at most 1 cluster of a user at a time\. Received: one more; running: (a|b\.py) \(", told[0])


def test_the_claim_of_a_killed_process_counts_no_more_and_is_removed() -> None:
    with holder("script", "a.py") as process:
        go(process)
        assert line_of(process) == "began"
        with pytest.raises(InvalidInput, match=r"running: a\.py \(script of pid"), claimed(ONE, of_cluster("b")):
            pass
        process.kill()
        process.wait(20)
        assert len(claim_files()) == 1
        with claimed(ONE, of_cluster("b")):
            assert len(claim_files()) == 1


def test_where_the_file_system_has_no_locks_a_process_counts_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise OSError("Function not implemented")

    monkeypatch.setattr(files, "lock", none)
    monkeypatch.setattr(files, "unlock", none)
    with ExitStack() as held:
        held.enter_context(claimed(ONE, of_script("a.py")))
        (name,) = claim_files()
        with pytest.raises(InvalidInput, match=r"running: a\.py"), claimed(ONE, of_cluster("b")):
            pass
        # As a process of this boot that has ended, and one of another host, left theirs.
        record = json.loads((paths.claims_dir() / name).read_text())
        for changed, is_left in (({"pid": 2**22 + 1}, False), ({"boot": "another"}, True)):
            files.replace(
                paths.claims_dir() / name, json.dumps({**record, "process": {**record["process"], **changed}})
            )
            with claimed(ONE, of_cluster("b")):
                assert (name in claim_files()) is is_left


def test_what_else_lies_in_the_folder_of_claims_counts_for_nothing() -> None:
    with claimed(ONE, of_cluster("a")):
        pass
    (paths.claims_dir() / "nothing.claim").write_text("[")
    (paths.claims_dir() / "a-folder.claim").mkdir()
    (paths.claims_dir() / "notes.txt").touch()
    with claimed(ONE, of_cluster("a")):
        assert "nothing.claim" not in claim_files()
        assert (paths.claims_dir() / "notes.txt").exists()


def test_a_folder_that_cannot_hold_claims_ends_a_start_only_where_there_is_a_limit(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "claims").write_text("")
    with claimed(None, of_script("a.py")):
        pass
    with pytest.raises(FolderNotWritable, match="claims"), claimed(ONE, of_script("a.py")):
        pass
    assert start_claims.running() == {}


def test_the_limit_is_a_count(site: Path) -> None:
    site.write_text("[none]\nlimits = {clusters = 0}\n")
    with pytest.raises(InvalidInput, match=re.escape("A count must be at least 1.") + r".*none\.limits\.clusters = 0"):
        read_profiles(site)
