"""A second kernel finds a running cluster by name, and the ranks' variables in it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.kernels import Kernel, KernelError, eventually, gone_within, kernel, without

from jupyter_ddl import attach, start
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import InvalidInput, NoCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mpi

START = "import jupyter_ddl\ns = jupyter_ddl.start(n=2, name={name!r}, keep={keep})\ns.run('x = 40 + rank')"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Give another kernel with a cluster, which the last test that uses it ends."""
    with kernel(without(tmp_path_factory.mktemp("without"), "tensorflow")) as made:
        made.do(START.format(name="there", keep=False))
        yield made


def test_variables_are_intact_and_detaching_ends_nothing(there: Kernel) -> None:
    session = attach("there")
    assert session.run("x").ranks[1].value == "41"
    session.run("x += 1")
    session.detach()
    assert there.do("answer = s.pull('x')") == {"0": 41, "1": 42}


def test_kept_ranks_outlive_their_kernel(other: Kernel) -> None:
    other.do(START.format(name="kept", keep=True))
    other.kill()
    session = attach("kept")
    assert session.run("x").ranks[1].value == "41"
    session.stop()
    assert not gone_within(other, 1.0)


def test_a_kernel_that_ends_by_itself_leaves_kept_ranks(other: Kernel) -> None:
    other.do(START.format(name="kept", keep=True) + "\ns.detach()")
    other.end()
    assert other.process.returncode == 0
    session = attach("kept")
    assert session.run("x").ranks[0].value == "40"
    session.stop()


def test_no_cluster_of_that_name(there: Kernel) -> None:
    with pytest.raises(NoCluster) as error:
        attach("elsewhere")
    text = str(error.value)
    assert text.startswith("A cluster must run to be attached to. Received: 'elsewhere'; running: ")
    assert "there" in text
    assert text.endswith(". Start one with %ddl start --name elsewhere.")


def test_a_name_that_is_taken(there: Kernel) -> None:
    with pytest.raises(InvalidInput) as error:
        start(n=1, name="there")
    assert str(error.value) == (
        "A cluster's name is its own. Received: name='there', which runs already. "
        "%ddl attach there uses it, %ddl stop ends it, --name starts another."
    )


def test_a_stop_by_the_attached_session_ends_all(there: Kernel) -> None:
    # The last one that uses this cluster.
    with attach("there") as session:
        assert session.run("rank").ranks[0].value == "0"
    assert not gone_within(there, 1.0)
    assert eventually(lambda: there.do("answer = s.state") == "stopped")
    with pytest.raises(KernelError, match="the cluster 'there' was stopped"):
        there.do("s.run('1')")
    there.do("s.stop()")
    with pytest.raises(NoCluster):
        attach("there")


def test_what_a_killed_lease_left_is_replaced(other: Kernel) -> None:
    other.do(START.format(name="stale", keep=False) + "\ns._lifecycle.replaces_lost = False")
    folder = ClusterFolder("stale")
    lease = folder.lease()
    assert lease is not None
    lease.send_signal(signal.SIGKILL)
    assert not gone_within(other, 10.0)
    with pytest.raises(NoCluster):
        attach("stale")
    assert folder.path.is_dir()
    other.do(START.format(name="stale", keep=False))
    assert other.do("answer = s.pull('x')") == {"0": 40, "1": 41}


def test_a_lease_that_is_another_process_now_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNTIME", str(tmp_path))
    folder = ClusterFolder("reused")
    folder.path.mkdir(parents=True)
    record = {"pid": os.getpid(), "create_time": psutil.Process().create_time()}
    (folder.path / "lease.json").write_text(json.dumps(record))
    assert folder.lease() is not None
    (folder.path / "lease.json").write_text(json.dumps({**record, "create_time": record["create_time"] - 100}))
    assert folder.lease() is None


def test_a_kept_cluster_that_was_detached_from_leaves_no_pipe_and_stops(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    first = start(n=1, name="left", keep=True, env=without(tmp_path, "tensorflow"))
    first.detach()
    attach("left").stop()
    assert eventually(lambda: len(list(descriptors.iterdir())) <= before)
    again = start(n=1, name="left", keep=True, env=without(tmp_path, "tensorflow"))
    again.detach()
    # The one that started it may still end it.
    again.stop()
    with pytest.raises(NoCluster):
        attach("left")
