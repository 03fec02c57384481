"""Starts ranks on hosts that cannot connect to this one: what holds them is on the first host, and SSH leads there.

`head` on that host does what a kernel there would, and becomes the lease; `head_link`, a process beside this kernel,
holds the SSH connection to it, and stands in the lease's place. Cells go the way of `tunnel`, as to any cluster on
another host.

Runs on: kernel.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths
from jupyter_ddl.cluster import head_link, mirrors
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.lifecycle import START_TIMEOUT_S, Cluster, Head, start_cancelled
from jupyter_ddl.errors import ClusterStartFailed, HostUnfit
from jupyter_ddl.host import process_identity, run_module
from jupyter_ddl.host.lost_after import host_lost_after_s
from jupyter_ddl.launch.forwarded import forwarded_names
from jupyter_ddl.launch.on_host import by_ssh, with_our_paths
from jupyter_ddl.launch.survey import CONNECT_S
from jupyter_ddl.launch.survey_failures import failure_of
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.launch.place import Place
    from jupyter_ddl.launch.surveyed import Surveyed

_POLL_S = 0.05
# The ranks end, and what they left is brought.
_END_S = 20.0
# A network file system shows a new file within seconds.
_SEEN_S = 30.0
# What the user set for MPI. What MPI itself sets for a program of its own is not meant for another one.
_OF_MPI = re.compile(r"(OMPI|PRTE|PMIX)_MCA_\w+|OMPI_ALLOW_\w+|(HYDRA|I_MPI)_\w+")


def is_needed(place: Place, hosts: Sequence[Surveyed]) -> bool:
    """Return whether ranks start from the first host, since hosts cannot connect to this one.

    Args:
        place: the hosts.
        hosts: what was found on them.
    """
    if place.through_ssh:
        return True
    # The others could not reach ranks on this host either; a job's hosts are reached as its scheduler likes.
    is_fit = place.kind == "hosts" and not place.is_inside and all(one.address for one in hosts)
    return is_fit and any(one.unreached for one in hosts)


def begin(
    spec: ClusterSpec,
    hosts: Sequence[Surveyed],
    progress: Callable[[str], None],
    given_up: threading.Event | None,
) -> Cluster:
    """Have the first host start a cluster, and return it while its ranks start.

    Args:
        spec: what to start.
        hosts: what was found on the hosts.
        progress: called with a sentence at each step.
        given_up: set, by another thread, to cancel.

    Raises:
        HostUnfit: ranks cannot start from there.
        ClusterStartFailed: a rank did not start.
    """
    first = hosts[0]
    if spec.keep and not first.shares:
        raise HostUnfit(
            "Ranks that are started through SSH and kept must be found: their first host must share this folder.",
            f"{paths.clusters_dir()}, which {first.host} does not see",
            f"Leave --keep out, or set {paths.RUNTIME_VARIABLE} and {paths.RUNS_VARIABLE} to folders that both see.",
        )
    mirror = None if first.shares else mirrors.of(spec.name, first.hostname)
    if unreached := [one.host for one in hosts if one.unreached]:
        progress(f"{', '.join(unreached)} cannot connect to this host: starting through SSH, from {first.host}")
    spec = _noted(replace(spec, place=replace(spec.place, through_ssh=True)), first, hosts)
    link = _linked(spec, first.host, mirror)
    try:
        begun = _begun(link, spec, first.host, progress, given_up)
        if mirror is None:
            folder = _seen(ClusterFolder(spec.name, Path(begun["begun"]).parent), begun["cluster"], first.host)
        else:
            folder = mirrors.filled(mirror, begun["cluster"], _lines(link, first.host, given_up))
        return Cluster(folder, link, Head(first.host, first.clock_offset_s))
    except BaseException:
        # Also on KeyboardInterrupt: nothing is left half started.
        _end(link)
        raise


def _noted(spec: ClusterSpec, first: Surveyed, hosts: Sequence[Surveyed]) -> ClusterSpec:
    """Return the spec with a note of who holds the ranks, and where they work, once."""
    notes = [f"Through SSH: hosts cannot connect to this one, so {first.host} holds the ranks."]
    if not first.has_folder:
        # The head says it of hosts that have not its own.
        named = ", ".join(one.host for one in hosts if not one.has_folder)
        notes.append(f"{Path.cwd()} is not on {named}: ranks there work in the home.")
    return replace(spec, note=" ".join([spec.note, *(note for note in notes if note not in spec.note)]))


def _linked(spec: ClusterSpec, host: str, mirror: ClusterFolder | None) -> subprocess.Popen[bytes]:
    """Return the process that stands in the lease's place, with its order written to it."""
    kept = head_link.KEEP if spec.keep else head_link.END
    stored = "" if mirror is None else str(mirror.path)
    program = with_our_paths(run_module.command("jupyter_ddl.cluster.head"))
    command = by_ssh(spec.place.ssh, host, program, "-T", *_options(), connect_s=CONNECT_S)
    link = subprocess.Popen(
        run_module.command("jupyter_ddl.cluster.head_link", host, kept, stored, *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Unbuffered: what one reader leaves is there for the next, and for a poll.
        bufsize=0,
        # An interrupt of the kernel is not meant for it.
        start_new_session=True,
    )
    assert link.stdin is not None
    order = json.dumps(_order(spec, is_apart=mirror is not None)).encode() + b"\n"
    try:
        while order:
            order = order[link.stdin.write(order) :]
    except BrokenPipeError:
        # What it said of its end is read.
        return link
    return link


def _options() -> list[str]:
    after_s = host_lost_after_s()
    # A host that stays away is noticed before its ranks are given up; where it never is, so is its connection.
    alive = [] if math.isinf(after_s) else [f"ServerAliveInterval={max(1, int(after_s / 4))}"]
    # A connection that other commands share would outlive this one.
    options = [*alive, "ServerAliveCountMax=3", "ControlMaster=no", "ControlPath=none"]
    return [part for option in options for part in ("-o", option)]


def _order(spec: ClusterSpec, *, is_apart: bool) -> dict[str, Any]:
    """Return what the head gets, by its standard input: no other user sees that."""
    names = {*forwarded_names(os.environ, {}), *(name for name in os.environ if _OF_MPI.fullmatch(name))}
    environment = {name: os.environ[name] for name in sorted(names)}
    if not is_apart:
        shared = {paths.RUNTIME_VARIABLE: paths.clusters_dir().parent, paths.RUNS_VARIABLE: paths.runs_dir()}
        environment |= {name: str(folder) for name, folder in shared.items()}
    return {
        "spec": asdict(spec),
        "environment": environment,
        "kernel": process_identity.own(),
        "is_apart": is_apart,
    }


def _begun(
    link: subprocess.Popen[bytes],
    spec: ClusterSpec,
    host: str,
    progress: Callable[[str], None],
    given_up: threading.Event | None,
) -> dict[str, Any]:
    """Wait until the head has become the lease; return what it said at that."""
    for said in _lines(link, host, given_up):
        if "step" in said:
            progress(f"{host}: {said['step']}")
        elif "failed" in said:
            raise _failure(said, spec, host)
        elif "unreached" in said:
            raise failure_of(host, said["unreached"], said["said"], place=spec.place, timeout_s=START_TIMEOUT_S)
        elif "begun" in said:
            return said
    raise AssertionError("what it says has no end but an error")


def _lines(link: subprocess.Popen[bytes], host: str, given_up: threading.Event | None) -> Iterator[dict[str, Any]]:
    """Yield what comes from the first host, until it ends or takes too long.

    Raises:
        ClusterStartFailed: it has ended, or the start was cancelled.
    """
    assert link.stdout is not None
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if given_up is not None and given_up.is_set():
            raise start_cancelled()
        if not select.select([link.stdout], [], [], _POLL_S)[0]:
            continue
        line = link.stdout.readline()
        if not line:
            break
        yield _object(line)
    raise ClusterStartFailed(f"{host} must start the ranks. Received: nothing from there. Try again.")


def _object(line: bytes) -> dict[str, Any]:
    """Return what a line says; nothing of one that a login's start-up files printed."""
    try:
        said = parse_json(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _failure(said: dict[str, Any], spec: ClusterSpec, host: str) -> Exception:
    if "rule" not in said:
        return ClusterStartFailed(f"Ranks that are started through SSH start from {host}. Received: {said['failed']}")
    others = ", ".join(one.host for one in spec.place.hosts[1:])
    remedy = said["remedy"]
    if others and said["failed"] == "HostUnfit":
        remedy += (
            f"\n{host} starts the ranks, since hosts cannot connect to this one: `ssh {others.partition(',')[0]}` must "
            f"work there too, without a password. --ssh '{spec.place.ssh} -A' takes your agent along."
        )
    return HostUnfit(f"Seen from {host}: {said['rule']}", said["received"], remedy)


def _seen(folder: ClusterFolder, cluster: dict[str, Any], host: str) -> ClusterFolder:
    """Wait until what the head wrote is seen here."""
    deadline_s = time.monotonic() + _SEEN_S
    while folder.settings().get("world_id") != cluster["world_id"]:
        if time.monotonic() > deadline_s:
            raise ClusterStartFailed(
                f"What {host} writes must be seen here. Received: nothing in {folder.path} after {_SEEN_S:g} s. Is it "
                "the same file system there?"
            )
        time.sleep(_POLL_S)
    return folder


def _end(link: subprocess.Popen[bytes]) -> None:
    """End a start that failed: the head ends with its connection."""
    assert link.stdin is not None
    assert link.stdout is not None
    link.stdin.close()
    try:
        link.wait(_END_S)
    except subprocess.TimeoutExpired:
        link.kill()
        link.wait()
    link.stdout.close()
