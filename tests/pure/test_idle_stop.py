"""When idle ranks are ended: what users and sites write, the watch by a clock that the test sets, what is said."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cluster_lab import Lab

from jupyter_ddl import paths
from jupyter_ddl.cluster.ending_notes import log_file
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.idle_watch import IdleWatch
from jupyter_ddl.cluster.planning import limited, plan, replanned
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.cluster.use_lock import UseLock, note_use
from jupyter_ddl.errors import ClusterError, InvalidInput, NoCluster
from jupyter_ddl.host import files, process_identity
from jupyter_ddl.kernel.hub_link import controls
from jupyter_ddl.kernel.idle_count import IdleCount
from jupyter_ddl.launch.profiles.limits import Allowed, allowed_by, idle_stop_in
from jupyter_ddl.launch.profiles.reading import read_profiles
from jupyter_ddl.protocol.events import RunFinished
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.idle_stop import IdleStop, idle_stop_of, seconds_of
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.views.idle_stop import idle_stop_sentence

if TYPE_CHECKING:
    from pathlib import Path

HALF_HOUR = IdleStop(1800.0, "--idle-stop 30m")
SPEC = ClusterSpec("a", 2, (), 1, {}, keep=False, oversubscribe=False, note="", idle_stop=HALF_HOUR)


# --- what is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["30", "m", "-1m", "1w", "1e3s", "٣m"])
def test_a_time_has_a_unit(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        seconds_of(text)
    expected = f"A time is a number and one of s, m, h and d. Received: {text!r}. Write 45s, 30m, 2h or 1d."
    assert str(caught.value) == expected


def test_times() -> None:
    assert [seconds_of(text) for text in ("45s", "30m", "1.5h", "1d")] == [45, 1800, 5400, 86400]


@pytest.mark.parametrize("text", ["30", "0s", "0.5s", "Never", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        idle_stop_in(None, text)
    rule = "Idle ranks are ended after a time of at least 1s, or never."
    assert str(caught.value) == f"{rule} Received: --idle-stop {text}. Write 45s, 30m, 2h, 1d or never."


def test_never_is_none_and_a_spec_keeps_the_time() -> None:
    assert idle_stop_of("never", "x") is None
    assert idle_stop_in(None, "30m") == HALF_HOUR
    assert ClusterSpec.from_json(SPEC.to_json()) == SPEC
    assert ClusterSpec.from_json(replace(SPEC, idle_stop=None).to_json()).idle_stop is None


# --- what a site says ---------------------------------------------------------------------------------------------

PROFILES = """
[both]
defaults = {idle_stop = "30m"}
limits = {idle_stop = "2h"}
[limit]
limits = {idle_stop = "2h"}
[free]
defaults = {idle_stop = "never"}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    file = tmp_path / "site.toml"
    file.write_text(PROFILES)
    return file


def test_what_is_given_wins_over_the_profile_within_its_limit(site: Path) -> None:
    both, limit, free = read_profiles(site)
    assert idle_stop_in(both, None) == IdleStop(1800.0, "the profile both (idle_stop = 30m)")
    assert idle_stop_in(both, "1h") == IdleStop(3600.0, "--idle-stop 1h")
    # A limit alone is the time of who says nothing.
    assert idle_stop_in(limit, None) == IdleStop(7200.0, "the profile limit (idle_stop = 2h)")
    assert idle_stop_in(free, None) is None
    spec = plan(n=2, gpus="none", idle_stop=idle_stop_in(both, "2h"))
    assert limited(spec, allowed_by(both)).idle_stop == IdleStop(7200.0, "--idle-stop 2h")
    for given, received in (("3h", "--idle-stop 3h"), ("never", "never")):
        with pytest.raises(InvalidInput) as caught:
            limited(replace(spec, idle_stop=idle_stop_in(both, given)), allowed_by(both))
        assert str(caught.value) == (
            f"The profile both allows at most 2h before idle ranks are ended. Received: {received}. "
            f"Ask for less; {site} has the limit."
        )


def test_a_servers_variable_is_the_time_of_who_has_no_other(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, limit, free = read_profiles(site)
    monkeypatch.setenv(paths.IDLE_STOP_VARIABLE, "10m")
    by = "JUPYTER_DDL_IDLE_STOP=10m"
    assert [idle_stop_in(named, None) for named in (None, limit)] == [IdleStop(600.0, by)] * 2
    assert [idle_stop_in(named, None) for named in (both, free)] == [
        IdleStop(1800.0, "the profile both (idle_stop = 30m)"),
        None,
    ]
    assert idle_stop_in(None, "never") is None
    monkeypatch.setenv(paths.IDLE_STOP_VARIABLE, "later")
    with pytest.raises(InvalidInput, match=r"or never\. Received: JUPYTER_DDL_IDLE_STOP=later\. Write 45s"):
        idle_stop_in(None, None)


def test_a_restart_keeps_the_time_and_the_limit() -> None:
    kept = limited(plan(n=2, gpus="none", idle_stop=HALF_HOUR), Allowed("p", "/etc/p.toml", idle_stop="2h"))
    assert replanned(kept, {"n": 3}).idle_stop == HALF_HOUR
    assert replanned(kept, {"idle_stop": "1h"}).idle_stop == IdleStop(3600.0, "--idle-stop 1h")
    with pytest.raises(InvalidInput, match=r"allows at most 2h before idle ranks are ended\. Received: never\."):
        replanned(kept, {"idle_stop": "never"})


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('limits = {idle_stop = "never"}', "A limit of idle ranks is a time. Received: {file}: bad.limits.idle_stop"),
        ('defaults = {idle_stop = "soon"}', "Idle ranks are ended after a time of at least 1s, or never. Received: {f"),
        ("defaults = {idle_stop = 30}", "A profile's key must have a value of its type."),
    ],
)
def test_a_profile_that_says_no_time_is_refused(tmp_path: Path, table: str, told: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(f"[bad]\n{table}\n")
    with pytest.raises(InvalidInput) as caught:
        read_profiles(file)
    assert str(caught.value).startswith(told.replace("{file}", str(file)).removesuffix("{f"))


# --- the watch ----------------------------------------------------------------------------------------------------


class Watched:
    """A cluster's folder, and its watch by a clock that the test sets."""

    def __init__(self) -> None:
        self.folder = ClusterFolder("a")
        self.folder.create(SPEC, {"kernel_pid": 4711, "world_id": "w1"})
        self.now_s = time.time()
        self.watch = IdleWatch(self.folder, HALF_HOUR, lambda: self.now_s)

    def used(self, ago_s: float) -> None:
        at_s = self.now_s - ago_s
        os.utime(self.folder.path / "use.lock", (at_s, at_s))

    def run(self, ago_s: float, *, session: Any = None, seconds: float | None = None) -> None:
        run = RunFolder("a")
        run.start_s = self.now_s - ago_s
        run.write("x", world_id="w1", ranks=[0, 1], world_size=2, session=session)
        if seconds is not None:
            run.end(RunFinished(run.run, "finished", seconds), {})


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    return Watched()


def test_ranks_end_once_no_run_has_used_them_for_the_time(watched: Watched) -> None:
    watched.used(1799)
    assert watched.watch.due() is None
    assert not log_file().exists()
    watched.used(1805)
    ending = watched.watch.due()
    assert ending is not None
    assert (ending.kind, ending.subject, ending.facts.by, ending.facts.seconds) == (
        "stopped",
        "idle",
        "--idle-stop 30m",
        1805.0,
    )
    assert (
        log_file().read_text().endswith(" a (2 ranks) was stopped by --idle-stop 30m, after 30 min 5 s without a run\n")
    )


def test_no_run_begins_on_ranks_that_end(watched: Watched) -> None:
    watched.used(1805)
    assert watched.watch.due() is not None
    with pytest.raises(BlockingIOError):
        _lock(watched.folder)


def _lock(folder: ClusterFolder) -> None:
    with files.open_to_lock(folder.path / "use.lock") as file:
        files.lock(file, shared=True, wait=False)


def test_ranks_that_a_kernel_uses_stay(watched: Watched) -> None:
    use = UseLock(watched.folder.path)
    use.hold()
    watched.used(9000)
    assert watched.watch.due() is None
    use.free()
    # It has noted the use.
    assert watched.watch.due() is None
    watched.used(1805)
    assert watched.watch.due() is not None


def test_records_say_of_runs_that_no_lock_shows(watched: Watched) -> None:
    watched.used(9000)
    watched.run(5000, session=process_identity.own())
    assert watched.watch.due() is None


def test_the_last_run_may_have_ended_later_than_the_lock_says(watched: Watched) -> None:
    watched.used(9000)
    watched.run(5000, seconds=4000.0)
    assert watched.watch.due() is None
    # That was 1000 s ago, and is read again once a minute.
    steps = 0
    while watched.watch.due() is None:
        steps += 1
        watched.now_s += 50.0
    assert steps == 16


def test_a_machine_that_slept_counts_anew(watched: Watched) -> None:
    watched.used(1000)
    watched.now_s += 7200
    assert watched.watch.due() is None
    assert (watched.folder.path / "use.lock").stat().st_mtime > time.time() - 60


def test_a_folder_that_cannot_be_read_says_nothing(watched: Watched) -> None:
    watched.folder.remove()
    assert watched.watch.due() is None
    watched.watch.restart()
    assert IdleWatch.of(_spec_folder(None)) is None
    assert IdleWatch.of(_spec_folder(HALF_HOUR)) is not None


def _spec_folder(idle_stop: IdleStop | None) -> Any:
    return SimpleNamespace(spec=lambda: replace(SPEC, idle_stop=idle_stop))


# --- the count, and what is said ----------------------------------------------------------------------------------


def test_the_count_sees_what_another_kernel_does(watched: Watched) -> None:
    own, other = UseLock(watched.folder.path), UseLock(watched.folder.path)
    changes: list[float | None] = []
    cluster: Any = SimpleNamespace(use=own, folder=watched.folder)
    count = IdleCount(cluster, HALF_HOUR, lambda: changes.append(count.ends_at_s))
    assert count.ends_at_s is None
    watched.used(100)
    count.look()
    assert count.ends_at_s == pytest.approx(watched.now_s + 1700, abs=0.01)
    other.hold()
    count.look()
    assert count.ends_at_s is None
    other.free()
    count.look()
    assert [one is None for one in changes] == [False, True, False]
    own.hold()
    assert count.ends_at_s is None
    own.free()
    watched.used(1000)
    assert count.ends_at_s == pytest.approx(time.time() + 1800, abs=5)
    count.restart()
    note_use(watched.folder.path)
    count.look()
    assert len(changes) == 3


def test_sentences() -> None:
    said = "The ranks are ended after 30 min without a run (--idle-stop 30m)"
    assert idle_stop_sentence(1800.0, HALF_HOUR.by) == f"{said}."
    assert idle_stop_sentence(1800.0, HALF_HOUR.by, 250.0) == f"{said}: in 4 min."


def test_the_next_cell_says_who_ended_them_and_what_starts_them(tmp_path: Path) -> None:
    lab = Lab()
    facts = Facts(by="--idle-stop 30m", seconds=1800.4)
    lab.cluster.end(RankLost(None, Fault("stopped", "idle", at_s=5.0, facts=facts), 5.0))
    with pytest.raises(NoCluster) as caught:
        lab.session.run("x")
    assert str(caught.value) == (
        "Ranks must run. Received: the cluster 'tests' was stopped by --idle-stop 30m, after 30 min 0 s without a run; "
        "what its cells defined is lost. %ddl restart starts it again."
    )
    state = lab.session.describe()
    assert (state["state"], state["ranks"], state["idle_ends_at_s"]) == ("stopped", [], None)
    with pytest.raises(ClusterError, match=r"Ranks are kept while they run\. Received: stopped\."):
        controls._keep(lab.session, {})
    lab.restart()
    lab.cell_is_run()
    with pytest.raises(ClusterError, match=r"Received: ranks that stay anyway\."):
        controls._keep(lab.session, {})
