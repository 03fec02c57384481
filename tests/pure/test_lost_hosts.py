"""Which host has been away for so long that its ranks are lost."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ddl.cluster.lost_hosts import lost_host
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.lost_after import host_lost_after_s
from jupyter_ddl.paths import HOST_LOST_VARIABLE
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.views.fault import describe

RANKS = {
    rank: RankReady(rank, 4, rank % 2, host, 100 + rank, "CPU", 2)
    for rank, host in enumerate(("nodea", "nodea", "nodeb", "nodeb"))
}


def asked(*silent: str) -> Any:
    return SimpleNamespace(look=lambda hosts: None, is_silent=lambda host: host in silent)


def test_a_host_that_stays_away_is_lost_with_its_ranks() -> None:
    fault = lost_host({0: 1.0, 2: 61.04, 3: 60.2}, RANKS, asked("nodeb"), 60.0)
    assert fault is not None
    assert (fault.kind, fault.subject, fault.host, fault.ranks, fault.facts.seconds) == (
        "lost",
        "host",
        "nodeb",
        (2, 3),
        60.2,
    )
    assert describe(fault) == (
        "nodeb has not answered for 1 min 0 s: it is down, or its network is, and with it ranks 2-3."
    )


@pytest.mark.parametrize(
    ("quiet", "silent"),
    [
        ({2: 59.0, 3: 59.0}, ("nodeb",)),
        # One of its ranks was heard since.
        ({2: 90.0, 3: 1.0}, ("nodeb",)),
        # It is up, but cannot be asked, or it answers: its ranks may be stopped.
        ({2: 90.0, 3: 90.0}, ()),
        ({}, ("nodeb",)),
    ],
)
def test_a_host_that_may_come_back_is_not_lost(quiet: dict[int, float], silent: tuple[str, ...]) -> None:
    assert lost_host(quiet, RANKS, asked(*silent), 60.0) is None


@pytest.mark.parametrize(("text", "seconds"), [("", 60.0), (" 90 ", 90.0), ("0", math.inf), ("15", 15.0)])
def test_the_deadline_can_be_set(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST_LOST_VARIABLE, text)
    assert host_lost_after_s() == seconds


@pytest.mark.parametrize("text", ["5", "-1", "a minute", "nan"])
def test_a_deadline_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST_LOST_VARIABLE, text)
    said = rf"A host may stay away for 15 s at least\. Received: {HOST_LOST_VARIABLE}={text}\. Set it to seconds, by"
    with pytest.raises(InvalidInput, match=said):
        host_lost_after_s()
