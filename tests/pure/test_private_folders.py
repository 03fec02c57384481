"""A folder of ours is this user's, and nobody else can write to it, or put another one in its place."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from users import STRANGER, account, as_user, needs_root

from jupyter_ddl import paths
from jupyter_ddl.errors import FolderNotPrivate, FolderNotWritable
from jupyter_ddl.host import private_folders
from jupyter_ddl.host.private_folders import private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = (
    "A folder of jupyter_ddl's must be this user's, and no other user may write to it or to a folder above it. "
    "Received: "
)
REMEDY = f" {paths.RUNTIME_VARIABLE} to a folder that is yours alone."


@pytest.fixture
def above() -> Iterator[Path]:
    """Give a folder that others can enter, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def refusal(folder: Path) -> str:
    with pytest.raises(FolderNotPrivate) as caught:
        private_folder(folder, variable=paths.RUNTIME_VARIABLE)
    assert not private_folders.is_private(folder)
    text = str(caught.value)
    assert text.startswith(f"{RULE}{folder} (")
    assert text.endswith(REMEDY)
    return text[len(RULE) + len(str(folder)) + 2 :].replace(REMEDY, "")


def made(folder: Path) -> bool:
    found = private_folder(folder, variable=paths.RUNTIME_VARIABLE)
    return found == folder and private_folders.is_private(folder)


def test_all_that_is_made_is_its_owners_alone(above: Path) -> None:
    before = os.umask(0)
    try:
        assert made(above / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in above.rglob("*")} == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o722, 0o707])
@pytest.mark.parametrize("part", ["", "runtime", "runtime/ddl", "runtime/ddl/clusters"])
def test_what_others_can_write_to_is_refused_and_the_remedy_said(above: Path, part: str, mode: int) -> None:
    folder = above / "runtime" / "ddl" / "clusters"
    assert made(folder)
    opened = above / part if part else above
    opened.chmod(mode)
    remedy = f"Look at what is in it and run `chmod go-w {opened}`, or set"
    assert refusal(folder) == f"every user can write to {opened}, mode {mode:04o}). {remedy}"
    opened.chmod(0o755)
    assert made(folder)


def test_a_sticky_folder_above_is_as_good_as_tmp(above: Path) -> None:
    above.chmod(0o1777)
    assert made(above / "mine")
    # And not good enough to be ours.
    assert "every user can write to" in refusal(above)


def test_another_users_folder_is_refused_wherever_it_is(above: Path) -> None:
    needs_root()
    folder = above / "runtime" / "ddl"
    assert made(folder)
    for part in (folder, folder.parent, above):
        os.chown(part, STRANGER, STRANGER)
        who = "" if part == folder else ", who can replace what is in it"
        assert refusal(folder) == f"{part} is user {STRANGER}'s{who}). Set"
        os.chown(part, 0, 0)
    assert made(folder)


def test_another_users_sticky_folder_is_refused_too(above: Path) -> None:
    needs_root()
    above.chmod(0o1777)
    os.chown(above, STRANGER, STRANGER)
    assert "who can replace what is in it" in refusal(above / "mine")


def test_a_link_is_looked_through(above: Path) -> None:
    needs_root()
    (above / "scratch").mkdir()
    (above / "home").mkdir()
    link = above / "home" / "ddl"
    link.symlink_to("../scratch/./mine/..")
    (above / "scratch" / "mine").mkdir()
    assert made(link / "runs")
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    assert refusal(link / "runs").startswith(f"{link} is user {STRANGER}'s")
    os.chown(link, 0, 0, follow_symlinks=False)
    (above / "scratch").chmod(0o777)
    assert refusal(link / "runs").startswith(f"every user can write to {above / 'scratch'}")


def test_a_link_in_a_folder_of_all_is_its_makers(above: Path) -> None:
    needs_root()
    (above / "all").mkdir()
    (above / "all").chmod(0o1777)
    (above / "victim").mkdir(mode=0o700)
    link = above / "all" / "jupyter_ddl-0"
    as_user(STRANGER, lambda: link.symlink_to(above / "victim"))
    assert refusal(link).startswith(f"{link} is user {STRANGER}'s")


def test_links_that_lead_nowhere_are_an_error_of_the_folder(above: Path) -> None:
    (above / "loop").symlink_to("loop")
    (above / "gone").symlink_to("nowhere")
    for name in ("loop", "gone"):
        with pytest.raises(FolderNotWritable, match=paths.RUNTIME_VARIABLE):
            private_folder(above / name, variable=paths.RUNTIME_VARIABLE)


def problem_of(user: str, folder: Path) -> Any:
    """Return what keeps a user from having a folder for theirs; None where nothing does."""

    def look() -> str | None:
        try:
            private_folder(folder, variable=paths.RUNTIME_VARIABLE)
        except FolderNotPrivate as error:
            return str(error)
        return None

    found = pwd.getpwnam(user)
    return as_user(found.pw_uid, look, found.pw_gid)


def test_a_home_that_its_owners_private_group_can_write_to_is_private(above: Path) -> None:
    with account("--user-group") as user, account() as other:
        home = above / user
        home.mkdir()
        os.chown(home, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        home.chmod(0o2775)
        assert problem_of(user, home / "ddl") is None
        # A private group with another member is none.
        subprocess.run(["usermod", "--append", "--groups", user, other], check=True, capture_output=True)
        told = problem_of(user, home / "ddl")
        assert told == (
            f"{RULE}{home}/ddl (the group {user} can write to {home}, mode 2775). Look at what is in it and run "
            f"`chmod g-w {home}`, or set JUPYTER_DDL_RUNTIME to a folder that is yours alone."
        )
        home.chmod(0o2755)
        assert problem_of(user, home / "ddl") is None


def test_a_group_that_others_have_as_their_first_is_not_private(above: Path) -> None:
    with account("--user-group") as user:
        gid = pwd.getpwnam(user).pw_gid
        home = above / user
        home.mkdir()
        os.chown(home, pwd.getpwnam(user).pw_uid, gid)
        home.chmod(0o770)
        assert problem_of(user, home / "ddl") is None
        with account("--gid", str(gid), "--no-user-group"):
            assert f"the group {user} can write to {home}, mode 0770" in problem_of(user, home / "ddl")


def test_a_group_that_nobody_knows_is_not_private(above: Path) -> None:
    needs_root()
    folder = above / "ddl"
    assert made(folder)
    os.chown(folder, 0, STRANGER)
    folder.chmod(0o770)
    assert refusal(folder).startswith(f"the group {STRANGER} can write to {folder}, mode 0770")


def test_the_one_account_of_a_container_may_have_any_group(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with account("--gid", "users", "--no-user-group") as user:
        home = above / user
        home.mkdir()
        os.chown(home, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        home.chmod(0o2775)
        services = above / "nsswitch.conf"
        monkeypatch.setattr(private_folders, "_NAME_SERVICES", services)
        assert problem_of(user, home / "ddl") is None, "no name service at all"
        services.write_text("passwd: files systemd\ngroup:  files [SUCCESS=merge] systemd # merged\nhosts: dns\n")
        assert problem_of(user, home / "ddl") is None
        # A directory service need not say who else is in `users`.
        for line in ("passwd: files sss", "group: files ldap"):
            services.write_text(f"{line}\n")
            assert f"the group users can write to {home}" in problem_of(user, home / "ddl")


def test_an_access_list_counts(above: Path) -> None:
    needs_root()
    folder = above / "ddl"
    assert made(folder)
    # Version 2; user::rwx, user:4242:rwx, group::---, mask::rwx, other::---. Source: linux/posix_acl_xattr.h
    entries = [
        (0x01, 7, 2**32 - 1),
        (0x02, 7, STRANGER),
        (0x04, 0, 2**32 - 1),
        (0x10, 7, 2**32 - 1),
        (0x20, 0, 2**32 - 1),
    ]
    content = (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + may.to_bytes(2, "little") + who.to_bytes(4, "little") for tag, may, who in entries
    )
    try:
        os.setxattr(folder, "system.posix_acl_access", content)
    except OSError as error:
        pytest.skip(f"no access lists here: {error.strerror}")
    assert as_user(STRANGER, lambda: (above / "ddl" / "planted").write_text("x")) == 1
    assert "can write to" in refusal(folder)


def test_a_relative_variable_without_a_working_folder_is_told(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = above / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv(paths.RUNS_VARIABLE, "runs")
    with pytest.raises(FolderNotWritable, match="it is below the working folder, which was removed"):
        paths.runs_dir()


@pytest.mark.parametrize(("flags", "reason"), [(os.ST_RDONLY, "read-only file system"), (0, "permission denied")])
def test_why_a_folder_cannot_be_written_to(
    flags: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    with pytest.raises(FolderNotWritable, match=rf"runs \({reason}\)\. Set JUPYTER_DDL_RUNS to a folder"):
        private_folder(tmp_path / "runs", variable=paths.RUNS_VARIABLE)
