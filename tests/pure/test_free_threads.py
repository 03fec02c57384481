"""A limit of threads that ranks would reach is said before any of them starts."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import free_threads, preflight
from jupyter_ddl.host.cores import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a host of a user with 40 threads in two processes, who may have 100; other users' do not count."""
    for pid, uid, threads in ((1, 0, 7), (20, 1000, 30), (21, 1000, 10), (22, 1001, 500)):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/status").write_text(f"Name:\tx\nUid:\t{uid}\t0\t0\t0\nThreads:\t{threads}\n")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    return tmp_path


def test_as_many_ranks_as_the_limit_allows_may_start(host: Path) -> None:
    free_threads.check_threads(2, host)
    said = (
        r"A cluster of 3 ranks starts 62 threads at least\. Received: 60 more that you may start \(`ulimit -u`\)\. "
        r"End what runs besides, start fewer ranks, or raise the limit: `ulimit -u 4158`, where Jupyter is started\."
    )
    with pytest.raises(HostUnfit, match=said):
        free_threads.check_threads(3, host)


def test_root_and_who_has_no_limit_start_any_number(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    free_threads.check_threads(1000, host)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, 1))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    free_threads.check_threads(1000, host)


def test_a_containers_limit_is_told_as_that(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_threads, "cgroup_folders", lambda *_: [host])
    (host / "pids.max").write_text("64\n")
    (host / "pids.current").write_text("30\n")
    with pytest.raises(HostUnfit, match=r"34 more that you may start \(pids\.max of the container\)\. .* --pids-limit"):
        free_threads.check_threads(2, host)


def test_each_start_looks_at_this_hosts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    own = free_threads.free_by_limit(ROOT)
    assert own is None or own > 0
    monkeypatch.setattr(free_threads, "free_by_limit", lambda _: 3)
    with pytest.raises(HostUnfit, match=r"A cluster of 1 rank starts 34 threads at least\. Received: 3 more"):
        preflight.check_surroundings()
