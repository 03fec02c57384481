"""Accounts of this machine that are there for as long as a program needs them, and Python for them. It takes root."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_MOUNTED = "/mnt"


@contextmanager
def local_users(names: Sequence[str]) -> Iterator[None]:
    """Make accounts, each with a home of mode 0700, and remove both at the end."""
    with ExitStack() as made:
        for name in names:
            subprocess.run(["useradd", "--create-home", "--key", "HOME_MODE=0700", name], check=True)
            # Says nothing but that the account has no mail.
            made.callback(subprocess.run, ["userdel", "--remove", name], check=True, stderr=subprocess.DEVNULL)
        yield


def as_user(name: str, *variables: str) -> list[str]:
    """Return the words in front of a command that run it as a user, with the user's home and nothing of root's.

    Args:
        name: of the account.
        variables: those of this process that the command gets too, besides PATH and PYTHONPATH.
    """
    given = {"HOME": str(Path(f"~{name}").expanduser()), "USER": name}
    given |= {of: os.environ[of] for of in ("PATH", "PYTHONPATH", *variables) if of in os.environ}
    environment = ["env", "-i", *(f"{of}={value}" for of, value in given.items())]
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups", *environment]


def opened_way(*programs: str) -> str:
    """Return shell commands that let all users reach programs which lie in folders of root's alone.

    To be run in a mount namespace of its own (`unshare --mount`): each such folder is empty there but for the one that
    leads to a program.

    Args:
        programs: files, such as a virtual environment's python; by default this program's.
    """
    needed = {step for program in programs or (sys.executable,) for step in _closed_steps(Path(program))}
    commands = []
    for closed in sorted({step.parent for step in needed}):
        kept = sorted(step for step in needed if step.parent == closed)
        commands += [f"mount -t tmpfs none {_MOUNTED}"]
        for number, step in enumerate(kept):
            commands += [f"mkdir {_MOUNTED}/{number}", f"mount --bind {shlex.quote(str(step))} {_MOUNTED}/{number}"]
        commands += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(closed))}"]
        for number, step in enumerate(kept):
            path = shlex.quote(str(step))
            commands += [f"mkdir {path}", f"mount --bind {_MOUNTED}/{number} {path}"]
        commands += [f"umount -R {_MOUNTED}"]
    return "\n".join(commands)


def _closed_steps(program: Path) -> Iterator[Path]:
    """Yield what lies in a folder that others cannot enter, on the ways to a file and to all that its links name."""
    left, seen = [program.absolute()], set()
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        for step in reversed([path, *path.parents[:-1]]):
            if not step.parent.stat().st_mode & stat.S_IXOTH:
                yield step
                break
        left += [
            Path(os.path.normpath(step.parent / step.readlink())) / path.relative_to(step)
            for step in (path, *path.parents[:-1])
            if step.is_symlink()
        ]
