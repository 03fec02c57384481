"""The limits of the machine's profile "default" hold for all starts on this host, whatever profile they name."""

from __future__ import annotations

import socket
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.cli import main
from jupyter_ddl.cluster.planning import limited, plan, replanned
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place import HERE, HostSlots, Place
from jupyter_ddl.launch.profiles import places
from jupyter_ddl.launch.profiles.limits import Allowed, idle_stop_in
from jupyter_ddl.launch.profiles.reading import all_profiles
from jupyter_ddl.launch.profiles.site_limits import allowed_at
from jupyter_ddl.launch.profiles.start_options import StartOptions, profile_of
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
from jupyter_ddl.protocol.idle_stop import IdleStop
from jupyter_ddl.protocol.memory_limit import MemoryLimit
from jupyter_ddl.server.places import places as form_places

if TYPE_CHECKING:
    from pathlib import Path

SITE = """
[default.limits]
ranks = 2
clusters = 1
idle_stop = "1h"
memory_per_rank = "8GB"
[night.limits]
ranks = 16
"""
MINE = """
[mine]
[small.limits]
ranks = 1
clusters = 4
idle_stop = "10m"
memory_per_rank = "7GiB"
"""
AWAY = Place("hosts", (HostSlots("nodea.invalid", 8),))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the machine's file of profiles; the user has one too."""
    monkeypatch.setattr(places, "_MACHINE", tmp_path / "etc")
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "home"))
    for folder, text in (("etc", SITE), ("home", MINE)):
        file = tmp_path / folder / places.FOLDER / "site.toml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return tmp_path / "etc" / places.FOLDER / "site.toml"


def limits(name: str | None, place: Place = HERE) -> Allowed | None:
    return allowed_at(None if name is None else all_profiles()[name], place)


def here(name: str | None, place: Place = HERE) -> Allowed:
    found = limits(name, place)
    assert found is not None
    return found


def test_a_users_profile_has_the_stricter_of_both(machine: Path) -> None:
    mine, small = here("mine"), here("small")
    assert (mine.ranks, mine.clusters, mine.idle_stop, mine.memory_per_rank) == (2, 1, "1h", "8GB")
    assert mine.site == dict.fromkeys(("ranks", "clusters", "idle_stop", "memory_per_rank"), str(machine))
    assert (small.ranks, small.clusters, small.idle_stop, small.memory_per_rank) == (1, 1, "10m", "7GiB")
    assert small.site == {"clusters": str(machine)}


def test_a_default_of_the_users_own_does_not_replace_them(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / places.FOLDER / "own.toml").write_text("[default]\n")
    found = profile_of(None, StartOptions())
    assert found is not None
    assert found.file != str(machine)
    assert here("default").ranks == 2


@pytest.mark.usefixtures("machine")
def test_another_profile_of_the_machines_has_its_own_where_it_sets_any(tmp_path: Path) -> None:
    night = here("night")
    assert (night.ranks, night.clusters, night.memory_per_rank) == (16, 1, "8GB")
    # One of the user's by that name is the user's.
    (tmp_path / "home" / places.FOLDER / "own.toml").write_text("[night.limits]\nranks = 16\n")
    assert here("night").ranks == 2


@pytest.mark.usefixtures("machine")
def test_the_panels_form_has_what_holds_here() -> None:
    most = {place["profile"]: place["most_ranks"] for place in form_places()}
    assert (most["default"], most["mine"], most["small"], most["night"]) == (2, 2, 1, 16)


def test_the_default_itself_is_as_it_was(machine: Path) -> None:
    assert here("default") == Allowed("default", str(machine), 2, idle_stop="1h", memory_per_rank="8GB", clusters=1)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", socket.gethostname()])
def test_this_host_by_its_name_is_this_host(host: str) -> None:
    place = Place("hosts", (HostSlots("nodea.invalid", 1), HostSlots(host, 8)))
    assert here(None, place).ranks == 2
    assert here("mine", place).ranks == 2
    assert limits(None, AWAY) is None
    assert here("mine", AWAY).ranks is None


@pytest.mark.usefixtures("machine")
def test_in_a_batch_job_the_schedulers_limits_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert here("mine").ranks is None
    assert limits(None) is None


def test_a_machine_that_sets_none_leaves_profiles_as_they_are(machine: Path) -> None:
    for text in ("", "[night.limits]\nranks = 1\n", '[default]\nlauncher = "slurm"\nlimits = {ranks = 1}\n'):
        machine.write_text(text)
        assert here("small").site == {}
        assert here("mine").ranks is None
        assert limits(None) is None


@pytest.mark.parametrize(
    ("site", "own", "kept"),
    [
        ('gpus = "own"', "", True),
        ('gpus = "own"', 'gpus = "shared"\ngpu_memory_per_rank = "10GB"', True),
        ('gpus = "shared"\ngpu_memory_per_rank = "20GB"', 'gpus = "own"', True),
        ('gpus = "shared"\ngpu_memory_per_rank = "20GB"', 'gpus = "shared"\ngpu_memory_per_rank = "30GB"', True),
        ('gpus = "shared"\ngpu_memory_per_rank = "20GB"', 'gpus = "shared"\ngpu_memory_per_rank = "10GB"', False),
        ("ranks = 2", 'gpus = "own"', False),
    ],
)
def test_gpus_are_given_out_as_the_machine_says(
    machine: Path, tmp_path: Path, site: str, own: str, *, kept: bool
) -> None:
    machine.write_text(f"[default.limits]\n{site}\n[wide.limits]\n{own}\n")
    (tmp_path / "home" / places.FOLDER / "site.toml").write_text(f"[mine.limits]\n{own}\n")
    default, mine = here("default"), here("mine")
    assert ((mine.gpus, mine.gpu_memory_per_rank) == (default.gpus, default.gpu_memory_per_rank)) is kept
    assert ("gpus" in mine.site) is kept
    # A profile of the machine's own is another choice of the staff's.
    assert here("wide").profile_of("gpus") == ("wide" if own else "default")


def test_the_error_says_who_sets_the_limit_and_with_which_profile_it_was_passed(machine: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        limited(plan(n=8, gpus="none", idle_stop=IdleStop(60.0, "1m")), here("mine"))
    assert str(error.value) == (
        "The profile default allows at most 2 ranks. Received: 8 ranks, with the profile mine. "
        f"Ask for less; {machine} has the limit, for all starts on this host."
    )
    with pytest.raises(InvalidInput, match=r"at most 1h before idle ranks are ended\. Received: never, with the prof"):
        limited(plan(n=2, gpus="none"), here("mine"))
    with pytest.raises(InvalidInput, match=r"Received: one more; running: a, with the profile small\. End one: .* for"):
        here("small").check_clusters(["a"])
    with pytest.raises(InvalidInput, match=r"The profile small allows at most 1 ranks\. Received: 2 ranks\. Ask"):
        limited(plan(n=2, gpus="none"), here("small"))


def test_what_ranks_may_hold_names_who_says_so(machine: Path) -> None:
    machine.write_text('[default.limits]\nmemory_per_rank = "8GB"\ngpus = "own"\n')
    mine = here("mine")
    assert mine.memory == MemoryLimit(8 * 10**9, f"the profile default (memory_per_rank = 8GB in {machine})")
    assert mine.allotment == GpuAllotment(f"the profile default (gpus = own in {machine})")
    started = limited(replace(plan(n=2, gpus="none"), finds_devices=True), mine)
    assert started.note.endswith(
        " Each gets a GPU of its own (the profile default). Each may hold 8GB of memory (the profile default)."
    )


@pytest.mark.usefixtures("machine")
def test_idle_ranks_end_at_the_machines_limit_where_nobody_says_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, small = (all_profiles()[name] for name in ("mine", "small"))
    assert idle_stop_in(mine, None, here("mine")) == IdleStop(3600.0, "the profile default (idle_stop = 1h)")
    assert idle_stop_in(small, None, here("small")) == IdleStop(600.0, "the profile small (idle_stop = 10m)")
    localhost = Place("hosts", (HostSlots("localhost", 8),))
    assert idle_stop_in(None, None, here(None, localhost)) == IdleStop(3600.0, "the profile default (idle_stop = 1h)")
    assert idle_stop_in(mine, None) is None
    monkeypatch.setenv("JUPYTER_DDL_IDLE_STOP", "5m")
    assert idle_stop_in(mine, None, here("mine")) == IdleStop(300.0, "JUPYTER_DDL_IDLE_STOP=5m")


@pytest.mark.usefixtures("machine")
def test_a_restart_and_another_kernel_keep_them() -> None:
    mine = here("mine")
    assert record_of(Allowed, asdict(mine)) == mine
    started = limited(plan(n=2, gpus="none", idle_stop=IdleStop(60.0, "1m")), mine)
    kept = ClusterSpec.from_json(started.to_json())
    assert kept == started
    with pytest.raises(InvalidInput, match="for all starts on this host"):
        replanned(kept, {"n": 3})


def test_starts_and_scripts_are_refused(machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"{machine} has the limit, for all starts on this host."
    with pytest.raises(InvalidInput, match=r"at most 2 ranks\. Received: 3 ranks, with the profile mine\.") as error:
        jupyter_ddl.start(n=3, gpus="none", profile="mine")
    assert said in str(error.value)
    with pytest.raises(InvalidInput, match=r"at most 2 ranks\. Received: 3 ranks\."):
        jupyter_ddl.start(hosts="localhost:3", gpus="none")
    script = tmp_path / "train.py"
    script.touch()
    for where in (["--profile", "mine"], ["--profile", "mine", "--local"]):
        assert main(["run", "-n", "3", "--gpus", "none", *where, str(script)]) != 0
        assert said in capsys.readouterr().err
    assert main(["run", "-H", "localhost:3", "--gpus", "none", str(script)]) != 0
    assert f"Received: 3 ranks. Ask for less; {machine} has the limit." in capsys.readouterr().err
