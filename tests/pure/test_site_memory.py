"""A site's limit of memory: how a profile says it, what shows it, and the fault of a rank that passes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.memory_limits import LimitOfHost, noted_excess
from jupyter_ddl.cluster.planning import limited, plan, replanned
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.course.class_server import LEARNER_BYTES, Server
from jupyter_ddl.course.class_size import SiteLimits, class_text
from jupyter_ddl.doctor.profiles import check_profiles
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.lost_ranks import with_last_seen
from jupyter_ddl.launch.profiles.limits import Allowed, allowed_by
from jupyter_ddl.launch.profiles.reading import read_profiles
from jupyter_ddl.protocol.events import MetricsSample
from jupyter_ddl.protocol.faults import Facts, Fault, MemoryExcess
from jupyter_ddl.protocol.memory_limit import MemoryLimit, bytes_of
from jupyter_ddl.views.fault import describe, headline

if TYPE_CHECKING:
    from pathlib import Path

BY = "the profile default (memory_per_rank = 8GB in /etc/site.toml)"
OVER = Fault(
    "lost",
    "rank",
    (1,),
    "node-a",
    12.0,
    "memory limit",
    facts=Facts(pid=7, excess=MemoryExcess(9 * 2**30, 3, 8_000_000_000, BY)),
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8GB", 8 * 10**9), ("8GiB", 2**33), ("500MB", 5 * 10**8), ("1.5TiB", 3 * 2**39), ("0.25GB", 25 * 10**7)],
)
def test_a_size(text: str, size_bytes: int) -> None:
    assert bytes_of(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "8", "8G", "8 GB", "8gb", "-8GB", "8e3MB", "0GB", "0.000MB", "８GB", "GB", "8GBs"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bytes_of(text)
    assert str(caught.value) == (
        "A size of memory is a number above 0 and one of MB, GB, TB, MiB, GiB and TiB. "
        f"Received: {text!r}. Write 500MB, 8GB or 7.5GiB."
    )


def test_a_profile_has_it(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[small]\nlimits = {ranks = 2, memory_per_rank = "8GB"}\n')
    (small,) = read_profiles(file)
    by = f"the profile small (memory_per_rank = 8GB in {file})"
    assert allowed_by(small).memory == MemoryLimit(8_000_000_000, by)
    assert Allowed("small", str(file)).memory is None


@pytest.mark.parametrize("value", ['"8G"', '"many"', '"0GB"'])
def test_a_profile_with_another_size_is_refused(tmp_path: Path, value: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f"[small.limits]\nmemory_per_rank = {value}\n")
    said = rf"A size of memory is .* Received: {file}: small\.limits\.memory_per_rank = '.*'\. Write 500MB, 8GB or"
    with pytest.raises(InvalidInput, match=said):
        read_profiles(file)
    file.write_text("[small.limits]\nmemory_per_rank = 8\n")
    with pytest.raises(InvalidInput, match=r"must have a value of its type\."):
        read_profiles(file)


def test_the_start_says_it_and_a_restart_and_another_kernel_keep_it() -> None:
    started = limited(plan(n=2, gpus="none"), Allowed("small", "/etc/site.toml", memory_per_rank="8GB"))
    told = " Each may hold 8GB of memory (the profile small)."
    assert started.note.endswith(told)
    again = replanned(ClusterSpec.from_json(started.to_json()), {"n": 3})
    assert again.allowed == started.allowed
    assert again.note.count(told) == 1


def test_a_rank_over_it_is_told_with_what_it_held_who_says_so_and_what_to_do() -> None:
    text = describe(OVER)
    assert text == (
        "rank 1 on node-a was ended, since it held 9 GiB of memory in 3 processes and may hold 7.45 GiB. "
        f"The limit is set by {BY}. Take smaller batches or fewer worker processes, load less of the data at once, "
        "or ask who runs the site for more."
    )
    assert headline(OVER) == text
    alone = Fault("lost", "rank", (1,), facts=Facts(excess=MemoryExcess(2**30, 1, 2**29, BY)), cause="memory limit")
    assert "rank 1 was ended, since it held 1 GiB of memory and may hold 0.5 GiB. " in describe(alone)


def test_what_is_known_stays_the_cause_whatever_the_rank_printed_last() -> None:
    sample = MetricsSample("r", 1, 11.0, cpu_pct=1.0, rss_bytes=2**20)
    fault = with_last_seen(OVER, sample, ["terminate called after throwing an instance of 'std::bad_alloc'"])
    assert (fault.cause, fault.facts.evidence) == ("memory limit", "")
    # The last sample is of the rank's own process alone, and older.
    assert describe(fault) == describe(OVER)


def test_a_witness_reads_it_from_its_ranks_variables_and_leaves_a_note(tmp_path: Path) -> None:
    settings = {"world_id": "w", "folder": str(tmp_path), "apart": {}, "memory": None}
    assert LimitOfHost.of({"JUPYTER_DDL_RANKS": json.dumps(settings)}) is None
    # A script's ranks.
    assert LimitOfHost.of({}) is None
    settings["memory"] = {"most_bytes": 2**30, "by": BY}
    assert LimitOfHost.of({"JUPYTER_DDL_RANKS": json.dumps(settings)}) is not None
    assert noted_excess(tmp_path, 1) is None
    (tmp_path / "rank-1.excess").write_text("{")
    assert noted_excess(tmp_path, 1) is None
    (tmp_path / "rank-1.excess").write_text('{"held_bytes": 3, "processes": 1, "most_bytes": 2, "by": "a site"}')
    assert noted_excess(tmp_path, 1) == MemoryExcess(3, 1, 2, "a site")


def test_doctor_says_it_and_where_it_is_the_schedulers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda command: f"/bin/{command}")
    (tmp_path / "site.toml").write_text(
        '[a]\nlimits = {memory_per_rank = "8GB"}\n[b]\nlauncher = "slurm"\nlimits = {memory_per_rank = "8GB"}\n[c]\n'
    )
    a, b, c = check_profiles((tmp_path,))
    assert (a.text, a.facts["memory_per_rank"]) == ("a (local); each rank may hold 8GB of memory", "8GB")
    assert b.text.endswith("; each rank may hold 8GB of memory")
    assert c.text == "c (local)"


def test_a_class_is_told_what_its_ranks_may_hold() -> None:
    server = Server(cores=8, memory_bytes=10 * LEARNER_BYTES, threads=None)
    assert f"By {BY} a rank may hold 7.45 GiB, and all of theirs 149 GiB: with less than 1.16 GiB for each" in (
        class_text(server, 10, SiteLimits("the profile default", memory=MemoryLimit(8 * 10**9, BY)))
    )
    assert f"By {BY} a rank may hold 0.931 GiB, and all of theirs 18.6 GiB.\n" in (
        class_text(server, 10, SiteLimits("the profile default", memory=MemoryLimit(10**9, BY)))
    )
