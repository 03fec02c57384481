"""Ranks that replace lost ones leave out a host that was lost, where that is wanted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.cluster.shrinking import without_lost_host
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.rebuild_choice import checked_rebuild
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.protocol.faults import Fault

PLACE = Place("hosts", (HostSlots("nodea.site", 2), HostSlots("nodeb.site", 4)), "ssh -p 2222")
SPEC = plan(place=PLACE, threads=3, name="big")
HOSTS = {"nodea": "nodea.site", "nodeb": "nodeb.site"}


@pytest.mark.parametrize("named", ["nodeb", "nodeb.site"])
def test_the_hosts_that_are_left_get_fewer_ranks(named: str) -> None:
    smaller = without_lost_host(SPEC, Fault("lost", "host", (2, 3, 4, 5), named), HOSTS)
    assert smaller == replace(
        SPEC,
        n=2,
        place=replace(PLACE, hosts=PLACE.hosts[:1]),
        note="2 ranks on 1 host (nodea.site), without nodeb.site, which was lost.",
    )


def test_no_more_ranks_than_before() -> None:
    few = plan(n=3, place=PLACE)
    assert without_lost_host(few, Fault("lost", "host", (), "nodea"), HOSTS).n == 3
    many = plan(n=12, place=PLACE, oversubscribe=True)
    assert without_lost_host(many, Fault("lost", "host", (), "nodea"), HOSTS).n == 8


@pytest.mark.parametrize(
    "fault",
    [
        Fault("lost", "rank", (3,), "nodeb"),
        Fault("lost", "host", (), "another"),
        Fault("lost", "host"),
        Fault("stopped", "user", host="nodeb"),
    ],
)
def test_other_losses_leave_the_hosts_as_they_were(fault: Fault) -> None:
    assert without_lost_host(SPEC, fault, HOSTS) is SPEC


def test_the_last_host_is_tried_again() -> None:
    alone = plan(place=Place("hosts", PLACE.hosts[:1]))
    assert without_lost_host(alone, Fault("lost", "host", (), "nodea"), HOSTS) is alone


def test_what_becomes_of_lost_ranks() -> None:
    assert [checked_rebuild(value) for value in (True, False, "shrink")] == [True, False, "shrink"]
    with pytest.raises(
        InvalidInput,
        match=r"rebuild must be True, False or 'shrink'\. Received: rebuild='never'\. Pass rebuild='shrink'",
    ):
        checked_rebuild("never")
