"""Counts a user's clusters, and those that start and scripts too, and lets no more begin than a profile allows.

A running cluster has its folder, and a job its scheduler. What has neither claims its place by a file of its own, which
is locked while it lives: a start until its lease is there, a script to its end. Counting and claiming is one step under
one lock: of two that begin at one moment, the second counts the first.

CLAIMS/                 0700
counting.lock           locked while a process counts and claims
TOKEN.claim             0600: what it is, and its process; locked by it

The system releases these locks when a process ends, whatever ended it. Where a file system has none, a process of this
host counts while it lives, one of another host does not, and two may begin at one moment.

Runs on: kernel, a script's terminal.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import finding, registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.host import files, process_identity, untrusted_files
from jupyter_ddl.host.private_folders import private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.launch.profiles.limits import Allowed

_COUNTING = "counting.lock"
_SUFFIX = ".claim"


@dataclass(frozen=True)
class Claim:
    """What is about to begin.

    Attributes:
        place: names it alone among all of the user's; for a cluster its folder's name below its host's.
        shown: for people.
    """

    place: str
    shown: str


def of_cluster(name: str) -> Claim:
    """Return the claim of a cluster that starts on this host."""
    return Claim(_place(ClusterFolder(name)), f"{name} (starting)")


def of_job(name: str) -> Claim:
    """Return the claim of a job that is submitted."""
    return Claim(secrets.token_hex(8), f"{name} (being submitted)")


def of_script(path: str) -> Claim:
    """Return the claim of a script that runs from this process."""
    return Claim(secrets.token_hex(8), f"{Path(path).name} (script of pid {os.getpid()})")


def claimed_start(spec: ClusterSpec, *, keeps_place: bool = False) -> AbstractContextManager[None]:
    """Count a start of a cluster's ranks while the block runs, after a check that it is allowed.

    Args:
        spec: which ranks; a job that brings them is counted by its scheduler.
        keeps_place: they take the place of ranks that ran until now, which is not checked again.

    Raises:
        as `claimed`.
    """
    if spec.served is not None:
        return nullcontext()
    return claimed(None if keeps_place else spec.allowed, of_cluster(spec.name))


def running() -> dict[str, str]:
    """Return place -> name of each cluster of this user's that runs, on all hosts that share the folder."""
    return {_place(folder): folder.name for folder in finding.running()}


@contextmanager
def claimed(allowed: Allowed | None, claim: Claim, others: Callable[[], dict[str, str]] = running) -> Iterator[None]:
    """Count one more of the user's clusters while the block runs, after a check that it is allowed.

    Args:
        allowed: what the profile allows; None without one.
        claim: of what begins. A cluster of its place that runs already is not counted: its name is refused elsewhere.
        others: returns what counts besides claims; called only where there is a limit.

    Raises:
        InvalidInput: as many run as are allowed.
        FolderNotWritable: there is a limit, and the claim cannot be written.
        FolderNotPrivate: likewise, and another user can write to its folder.
    """
    limits = None if allowed is None or allowed.clusters is None else allowed
    with ExitStack() as held:
        try:
            folder = private_folder(paths.claims_dir(), variable=paths.RUNTIME_VARIABLE)
            with _counting(folder) as has_locks:
                if limits is not None:
                    # Claims first: a start that ends its claim meanwhile runs by then.
                    counted = _claims(folder, has_locks=has_locks) | others()
                    counted.pop(claim.place, None)
                    limits.check_clusters(tuple(counted.values()))
                held.enter_context(_written(folder, claim))
        except FolderNotWritable:
            # Without a limit here the claim only counts against others.
            if limits is not None:
                raise
        yield


def _place(folder: ClusterFolder) -> str:
    return f"{folder.path.parent.name}/{folder.name}"


@contextmanager
def _counting(folder: Path) -> Iterator[bool]:
    """Wait until no other process counts, and hold the lock in the block; yields whether there are locks."""
    try:
        file = files.open_to_lock(folder / _COUNTING)
    except OSError as error:
        raise FolderNotWritable(folder, paths.RUNTIME_VARIABLE, error.strerror or str(error)) from error
    with file:
        has_locks = True
        try:
            files.lock(file)
        except OSError:
            has_locks = False
        yield has_locks


@contextmanager
def _written(folder: Path, claim: Claim) -> Iterator[None]:
    path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
    with ExitStack() as held:
        try:
            file = held.enter_context(files.open_to_lock(path))
            with suppress(OSError):
                files.lock(file)
            record = {"place": claim.place, "shown": claim.shown, "process": process_identity.own()}
            # Past the file's buffer, which its closing would try to write again on a full disk.
            os.write(file.fileno(), json.dumps(record).encode())
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            raise FolderNotWritable(folder, paths.RUNTIME_VARIABLE, error.strerror or str(error)) from error
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                # A process that was forked meanwhile has the file open too.
                files.unlock(file)


def _claims(folder: Path, *, has_locks: bool) -> dict[str, str]:
    """Return place -> text of each claim that is held; remove those whose process is gone.

    Args:
        folder: of the claims.
        has_locks: the caller holds the counting lock, so that no claim is being written meanwhile.
    """
    found = {}
    for name in registry.names(folder):
        if not name.endswith(_SUFFIX):
            continue
        try:
            record = untrusted_files.read_object(folder / name, only_own=True)
        except (OSError, ValueError):
            record = {}
        lives = process_identity.lives(record.get("process"))
        if registry.is_locked(folder, name) or (lives and not has_locks):
            place, shown = record.get("place", name), record.get("shown", "a start")
            found[str(place)] = str(shown)
        elif has_locks or (record and lives is False):
            with suppress(OSError):
                (folder / name).unlink()
    return found
