"""An image of Apptainer's, and an ordinary user who runs it on the hosts of the rig.

Apptainer needs no root and no service: the user runs it in namespaces of their own. The image is not built here and not
fetched: `DDL_TEST_IMAGE` names one that the steps in containers/ made, or `ddl.sif` in the checkout. Its package is
covered by the checkout's, so that the tests run what is here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import MARK
from systems.rig import ADDRESSES, NODES, SSHD, Rig, end

import jupyter_ddl

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(jupyter_ddl.__file__).parents[1]
BIND = f"{ROOT}/jupyter_ddl:/opt/ddl/lib/python3.11/site-packages/jupyter_ddl"
_UID = 10_771
_ROOTS = Path("~root").expanduser()
_PORT = 2200
# A user of ours, in an /etc of theirs, and root's folders that hold Python or the checkout, which others cannot enter.
_ROOM = """
mount --make-rprivate /
mount --bind {folder}/etc /etc
kept={folder}/kept
mount --rbind {root} $kept
mount -t tmpfs -o mode=755 tmpfs {root}
for each in {hidden}; do
    mkdir -p "{root}/$each"
    mount --bind "$kept/$each" "{root}/$each"
done
umount -l $kept
"""
_SSHD = """
ListenAddress {address}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/id.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
StrictModes no
UsePAM no
# As a site's start-up files would.
SetEnv PATH={path} APPTAINER_BIND={bind}
"""


class User:
    """An ordinary user of the hosts, with a home that they share.

    Attributes:
        home: their home.
        image: the image's path.
        ssh: the command that reaches each host as this user.
    """

    def __init__(self, hosts: Rig, image: Path) -> None:
        self.hosts = hosts
        self.image = image
        self.folder = hosts.folder / "user"
        self.home = self.folder / "home"
        self.ssh = f"ssh -F {self.folder}/ssh_config"

    def within(self, host: str = "login") -> tuple[str, ...]:
        """Return what to write before a command that is to run as this user on a host."""
        user = f'exec setpriv --reuid {_UID} --regid {_UID} --clear-groups -- "$@"'
        return (*self.hosts.enter(host), "unshare", "-m", "sh", "-ec", f"{self._room}cd {self.home}\n{user}", "sh")

    def variables(self, **changes: str) -> dict[str, str]:
        """Return the variables of this user's processes."""
        own = {
            "HOME": str(self.home),
            "USER": "ada",
            "JUPYTER_DDL_RUNTIME": str(self.home / "runtime"),
            "JUPYTER_DDL_RUNS": str(self.home / "runs"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # Within the image the package is the checkout's.
            "APPTAINER_BIND": BIND,
        }
        return {**os.environ, **own, **changes}

    def run(self, host: str, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run a command as this user on a host."""
        return subprocess.run(
            [*self.within(host), *command],
            env=self.variables(**changes),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def in_image(self, *options: str) -> tuple[str, ...]:
        """Return what to write before a command that is to run in the image, as this user on the login node."""
        # The mark by which the tests find a process, also where the image gets no variables of the host.
        marked = f'export APPTAINERENV_{MARK}="${MARK}"; exec "$@"'
        apptainer = ("apptainer", "--silent", "exec", *options, str(self.image))
        return (*self.within(), "sh", "-c", marked, "sh", *apptainer)

    def make(self) -> None:
        """Make the home, the keys and the settings."""
        self.home.mkdir(parents=True)
        (self.folder / "kept").mkdir()
        # A whole folder: a file that lies over this machine's own is gone when that is replaced, as useradd does.
        etc = self.folder / "etc"
        shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("*shadow*", "ssh_host_*"))
        shutil.copy(self.hosts.folder / "hosts", etc / "hosts")
        lines = [*Path("/etc/passwd").read_text().splitlines(), f"ada:x:{_UID}:{_UID}::{self.home}:/bin/sh"]
        (etc / "passwd").write_text("\n".join(lines) + "\n")
        for name in ("id", "id.pub", "known_hosts", "host_key"):
            shutil.copy(self.hosts.folder / name, self.folder)
        known = (self.folder / "known_hosts").read_text().splitlines()
        lines = [
            f"{','.join(f'[{name}]:{_PORT}' for name in one.split()[0].split(','))} {one.split(' ', 1)[1]}"
            for one in known
        ]
        (self.folder / "known_hosts").write_text("\n".join(lines) + "\n")
        (self.folder / "ssh_config").write_text(
            f"Host *\nUser ada\nPort {_PORT}\nIdentityFile {self.folder}/id\n"
            f"UserKnownHostsFile {self.folder}/known_hosts\nIdentitiesOnly yes\n"
        )
        for path in (self.folder, self.home, self.folder / "id"):
            os.chown(path, _UID, _UID)
        # Its own key pair and the folder that it is in are the user's, and the rig's are on the way to them.
        self.hosts.folder.chmod(0o711)
        os.chown(self.folder / "host_key", 0, 0)

    @contextmanager
    def welcome(self, host: str) -> Iterator[None]:
        """Let this user in by SSH on a host, for the length of the block."""
        config = self.folder / f"{host}.sshd"
        apptainer = shutil.which("apptainer")
        path = "/usr/bin:/bin" if apptainer is None else f"{Path(apptainer).parent}:/usr/bin:/bin"
        config.write_text(_SSHD.format(address=ADDRESSES[host], port=_PORT, folder=self.folder, path=path, bind=BIND))
        log = self.folder / f"{host}.log"
        command = [*self.hosts.enter(host), "setpriv", "--pdeathsig", "KILL", "unshare", "-m", "sh", "-ec"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, f"{self._room}exec {SSHD} -D -e -f {config}"], stdin=subprocess.DEVNULL, stderr=file
            )
        try:
            # It is up when its port is open: `hosts` has waited for the name and the route.
            while not self.hosts.on(host, f"ss -Hltn 'sport = :{_PORT}'"):
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            end(process)

    @property
    def _room(self) -> str:
        needed = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
        hidden = sorted(str(path.relative_to(_ROOTS)) for path in needed if path.is_relative_to(_ROOTS))
        return _ROOM.format(folder=self.folder, root=_ROOTS, hidden=" ".join(hidden))


def image() -> Path:
    """Return the image for the tests, or skip them."""
    if shutil.which("apptainer") is None:
        pytest.skip("ranks in an image take Apptainer: there is none on PATH")
    path = Path(os.environ.get("DDL_TEST_IMAGE", ROOT / "ddl.sif"))
    if not path.exists():
        pytest.skip(f"there is no image at {path}: build it as docs/containers.md says, or set DDL_TEST_IMAGE")
    return path


@contextmanager
def user_of(hosts: Rig) -> Iterator[User]:
    """Give the hosts an ordinary user who can run the image."""
    with ordinary_user(hosts, image()) as found:
        probe = found.run("login", "apptainer", "exec", str(found.image), "true")
        if probe.returncode:
            pytest.skip(f"an ordinary user cannot run the image here: {probe.stderr.strip()[-300:]}")
        yield found


@contextmanager
def ordinary_user(hosts: Rig, of: Path = Path("/none.sif")) -> Iterator[User]:
    """Give the hosts an ordinary user.

    Args:
        hosts: the rig.
        of: the image that they run.
    """
    found = User(hosts, of)
    found.make()
    with found.welcome(NODES[0]), found.welcome(NODES[1]):
        yield found
    shutil.rmtree(found.folder)
