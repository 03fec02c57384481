"""Environments that a user makes on top of one that only its owner may write: found and used on all hosts."""

from __future__ import annotations

import shlex
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import kernel
from systems.images import User, ordinary_user
from systems.rig import NODES, Rig
from systems.test_hosts import TRAINS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.slow]

WHERE = """
import socket, sys
import mine, tensorflow
where = socket.gethostname(), sys.prefix, mine.__file__, tensorflow.__file__
"""


@pytest.fixture(scope="module")
def user(hosts: Rig) -> Iterator[User]:
    with ordinary_user(hosts) as found:
        yield found


def test_ranks_on_all_hosts_use_an_environment_on_top_of_one_that_is_read_only(user: User) -> None:
    own, base = user.home / "mine", Path(sysconfig.get_path("purelib"))
    made = user.run("login", sys.executable, "-m", "venv", "--without-pip", str(own))
    assert made.returncode == 0, made.stderr
    packages = own / base.relative_to(sys.prefix)
    below = f"import site; site.addsitedir({str(base)!r})"
    lines = f"echo {shlex.quote(below)} > {packages}/base.pth; touch {packages}/mine.py; touch {base}/tried || true"
    said = user.run("login", "sh", "-c", lines)
    assert "Permission denied" in said.stderr
    python = str(own / "bin" / "python")
    path = f"{own}/bin:/usr/bin:/bin"
    with kernel(user.variables(PATH=path), within=user.within(), python=python) as top:
        top.do(f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea:1,nodeb:1', ssh={user.ssh!r})")
        top.do(f"s.run({WHERE!r})")
        tensorflow = str(base / "tensorflow" / "__init__.py")
        assert top.do("answer = s.pull('where')") == {
            str(rank): [node, str(own), str(packages / "mine.py"), tensorflow] for rank, node in enumerate(NODES)
        }
        top.do(f"s.run({TRAINS!r})\ns.stop()")
