"""Checks that a folder is this user's, and that no other user can change what is in it, or replace it.

A user who can write to a folder can rename what is in it. So each folder above ours, and each that a link on the path
leads through, must be this user's, root's, or sticky (as /tmp is), and writable by no other user.

A folder that its group can write to is this user's alone where no other account is in the group. That is so for the
private group of the user's own name that Debian and Red Hat give each user, under which a home may have mode 0775; and
for the one account of a container, whatever its group, where all accounts are in the container's own files.

Known limit: an NFSv4 server's own access lists do not show in a mode, so they are not checked.

Runs on: kernel, Jupyter server, terminal, lease and every rank.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import FolderNotPrivate, FolderNotWritable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ROOT = 0
_MOST_LINKS = 40  # as Linux has it
_ACL = "system.posix_acl_access"
_NAME_SERVICES = Path("/etc/nsswitch.conf")
_ACTIONS = re.compile(r"\[[^]]*\]")  # "[NOTFOUND=return]"
_LOCAL = {"files", "compat", "systemd", "altfiles"}


def private_folder(path: Path, *, variable: str) -> Path:
    """Make a folder, and its parents, that only its owner can enter (mode 0700), and check that it is private.

    Args:
        path: the folder.
        variable: the environment variable that puts it elsewhere, for the error.

    Raises:
        FolderNotWritable: the folder cannot be made or written to.
        FolderNotPrivate: it, or a folder above it, is another user's, or one that others can write to.
    """
    try:
        _make(path)
        check_private(path, variable)
    except FolderNotWritable:
        raise
    except OSError as error:
        raise FolderNotWritable(path, variable, error.strerror or str(error)) from error
    if not os.access(path, os.W_OK | os.X_OK):
        # To root, access to a disk that is mounted so is denied for this alone.
        is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        raise FolderNotWritable(path, variable, "read-only file system" if is_read_only else "permission denied")
    return path


def check_private(path: Path, variable: str) -> None:
    """Check that a folder is this user's alone, and that no other user can replace it.

    Args:
        path: a folder that exists.
        variable: the environment variable that puts it elsewhere, for the error.

    Raises:
        FolderNotPrivate: it is not; the error says which folder must be changed, and how.
        OSError: it does not exist, or cannot be read.
    """
    *above, (folder, status) = _steps(path)
    for step, found in above:
        if (problem := _problem_above(step, found)) is not None:
            raise FolderNotPrivate(path, variable, *problem)
    if (problem := _problem(folder, status)) is not None:
        raise FolderNotPrivate(path, variable, *problem)


def is_private(path: Path) -> bool:
    """Return whether a folder exists, is this user's alone, and cannot be replaced by another user."""
    try:
        check_private(path, "")
    except OSError:
        return False
    return True


def problem_of_trust(path: Path, owners: Collection[int] = ()) -> tuple[str, str | None] | None:
    """Return why a user besides root, this one and `owners` can change what is at a path, and the command against it.

    Args:
        path: a file or a folder that exists.
        owners: numbers of accounts that are trusted too.

    Raises:
        OSError: it does not exist, or cannot be read.
    """
    steps = list(_steps(path))
    for number, (step, status) in enumerate(steps, 1):
        is_last = number == len(steps)
        if status.st_uid in owners:
            problem = None if stat.S_ISLNK(status.st_mode) else _opened(step, status)
        elif is_last and not stat.S_ISLNK(status.st_mode) and status.st_uid in (os.geteuid(), _ROOT):
            # A folder's sticky bit keeps others from renaming what is in it, but not from adding to it.
            problem = _opened(step, status)
        else:
            problem = _problem_above(step, status)
        if problem is not None:
            return problem
    return None


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder and link that a path leads through, from / on; the last is the folder itself."""
    at, followed = Path("/"), 0
    left = list(reversed(path.absolute().parts[1:]))
    yield at, os.lstat(at)
    while left:
        part = left.pop()
        if part == "..":
            at = at.parent
            yield at, os.lstat(at)
            continue
        step = at / part
        status = os.lstat(step)
        if not stat.S_ISLNK(status.st_mode):
            at = step
            yield at, status
            continue
        yield step, status
        followed += 1
        if followed > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = step.readlink()
        if target.is_absolute():
            at = Path("/")
        left += reversed([name for name in target.parts if name != "/"])
        if not left:
            yield at, os.lstat(at)


def _problem_above(step: Path, status: os.stat_result) -> tuple[str, str | None] | None:
    """Return what is wrong with a folder or link above ours, and the command that fixes it, where there is one."""
    if status.st_uid not in (os.geteuid(), _ROOT) and not _is_of_nobody_here(status.st_uid):
        return f"{step} is {login_of(status.st_uid)}'s, who can replace what is in it", None
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return None
    return _opened(step, status)


def _problem(folder: Path, status: os.stat_result) -> tuple[str, str | None] | None:
    if status.st_uid != os.geteuid():
        return f"{folder} is {login_of(status.st_uid)}'s", None
    return _opened(folder, status)


def _opened(folder: Path, status: os.stat_result) -> tuple[str, str | None] | None:
    """Return what is wrong where others can write to a folder."""
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
    if status.st_mode & stat.S_IWOTH:
        return f"every user can write to {folder}, {mode}", f"chmod go-w {folder}"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(folder, status):
        return f"the group {_group_name(status.st_gid)} can write to {folder}, {mode}", f"chmod g-w {folder}"
    return None


def _is_private_group(folder: Path, status: os.stat_result) -> bool:
    """Return whether the group of a folder has no member but this user, and root, and no access list adds others.

    Source: acl(5): where there is a list, the mode's bits for the group are the most that it grants to any of them.
    """
    if _has_access_list(folder):
        return False
    me = {account.pw_name for account in pwd.getpwall() if account.pw_uid in (os.geteuid(), _ROOT)}
    members = _members(status.st_gid)
    if members is None or members - me - {login_of(os.geteuid())}:
        return False
    # A directory service need not list a group's members; a user's private group is trusted to be private.
    return _group_name(status.st_gid) == login_of(os.geteuid()) or _lists_all_accounts()


def _members(gid: int) -> set[str] | None:
    """Return the names of the accounts in a group, by its list or as their primary group; None for an unknown group."""
    try:
        named = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return None
    return named | {account.pw_name for account in pwd.getpwall() if account.pw_gid == gid}


def _lists_all_accounts() -> bool:
    """Return whether this host's accounts are all in its own files, and none in a directory service.

    Source: nsswitch.conf(5).
    """
    try:
        text = _NAME_SERVICES.read_text()
    except OSError:
        return True
    rows = (line.partition("#")[0].partition(":") for line in text.splitlines())
    sources = {name.strip(): set(_ACTIONS.sub("", listed).split()) for name, _, listed in rows}
    return all(sources.get(kind, set()) <= _LOCAL for kind in ("passwd", "group"))


def _has_access_list(folder: Path) -> bool:
    try:
        os.getxattr(folder, _ACL)
    except OSError:
        # No list, or a file system without such lists.
        return False
    return True


def _is_of_nobody_here(uid: int) -> bool:
    """Return whether an owner has no number in this user namespace, as the host's root has none in a container's.

    Then nothing more can be known of the owner, and only the mode says who may write.
    Source: user_namespaces(7), "Unmapped user and group IDs".
    """
    if uid != int(Path("/proc/sys/kernel/overflowuid").read_text()):
        return False
    maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return not any(int(first) <= uid < int(first) + int(count) for first, _, count in maps)


def login_of(uid: int) -> str:
    """Return a user's name, for people; "user 1234" where the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _make(path: Path) -> None:
    """Make a folder and those above it, all of mode 0700: under a umask of 002 others could write to them."""
    if not path.is_dir():
        if not path.parent.exists():
            _make(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
