"""The watch over a lease continues whatever the lease says, and closes its pipes."""

from __future__ import annotations

import errno
import queue
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kernel_sides import RANKS
from raising import DEADLINE_S, raising

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster import supervisor
from jupyter_ddl.cluster.supervisor import Supervisor
from jupyter_ddl.launch.place import HERE
from jupyter_ddl.protocol.rank_life import RankLost, RankReady
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Callable


def supervised(lease: Any, tell: Callable[[Any], None], ask: Callable[..., None] = lambda *_, now: None) -> Supervisor:
    folder = SimpleNamespace(
        settings=lambda: {"world_id": "world"},
        is_elsewhere=False,
        spec=lambda: SimpleNamespace(place=HERE),
        ending=lambda: None,
        lease=lambda: None,
    )
    ranks = {rank: RankReady(rank, 2, rank, "elsewhere", 4710, "CPU", 2) for rank in RANKS}
    transport = SimpleNamespace(send=ask)
    return Supervisor(folder, lease, ranks, transport, tell, ranks)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", [b"no JSON\n", b"[]\n", b'{"asked": false}\n', b"\xff\n"])
def test_a_lease_whose_last_word_cannot_be_read_ends_the_runs(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    lease = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({line!r})"], stdout=subprocess.PIPE
    )
    told: queue.Queue[Any] = queue.Queue()
    watching = supervised(lease, told.put)
    watching.start()
    lost = told.get(timeout=DEADLINE_S)
    assert isinstance(lost, RankLost)
    assert describe(lost.fault).startswith("the kernel can no longer watch the cluster's lease (")
    watching.join()
    lease.wait()
    leases.close_pipes(lease)


def held() -> subprocess.Popen[bytes]:
    """Start what ends as a lease does: when its standard input says so, or closes."""
    said = '{"kind": "stopped", "subject": "user"}'
    return subprocess.Popen(["sh", "-c", f"read line; echo '{said}'"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def is_closed(lease: subprocess.Popen[bytes]) -> bool:
    assert lease.stdin is not None
    assert lease.stdout is not None
    return lease.stdin.closed and lease.stdout.closed


def test_the_watch_closes_the_pipes_of_a_lease_that_another_kernel_ended() -> None:
    # A ResourceWarning, which fails a test, where they stay open.
    lease = held()
    told: queue.Queue[Any] = queue.Queue()
    watching = supervised(lease, told.put)
    watching.start()
    lease.terminate()
    assert isinstance(told.get(timeout=DEADLINE_S), RankLost)
    watching.join()
    assert is_closed(lease)
    leases.tell_to_stop(lease)


def test_no_descriptor_is_closed_that_the_watch_polls() -> None:
    # A stop by a listener, in the watch's own thread, and one by another thread while it polls.
    lease = held()
    told: queue.Queue[Any] = queue.Queue()
    watching = supervised(lease, lambda event: (watching.join(), told.put((event, is_closed(lease)))))
    watching.start()
    leases.tell_to_stop(lease)
    watching.join()
    event, was_closed = told.get(timeout=DEADLINE_S)
    assert (event.fault.kind, was_closed) == ("stopped", False)
    assert told.empty()
    assert is_closed(lease)


def test_a_cluster_that_was_stopped_while_it_started_is_not_watched() -> None:
    lease = held()
    watching = supervised(lease, lambda _: pytest.fail("told"))
    leases.tell_to_stop(lease)
    watching.join()
    assert is_closed(lease)
    watching.start()
    watching.join()


def test_a_stop_finds_that_the_watch_has_closed_the_pipe_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = held()
    pipe = lease.stdin
    assert pipe is not None

    class Checked:
        """The pipe as a stop sees it that has checked it before the watch closed it."""

        closed = False

        def __enter__(self) -> Any:
            leases.close_pipes(lease)
            return pipe

        def __exit__(self, *_: object) -> None: ...

    lease.terminate()
    lease.wait()
    real, lease.stdin = lease.stdin, Checked()  # type: ignore[assignment]
    monkeypatch.setattr(Checked, "close", lambda _: pipe.close(), raising=False)
    leases.tell_to_stop(lease)
    lease.stdin = real
    assert is_closed(lease)


def test_a_supervisor_that_fails_once_looks_after_the_ranks_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "_TICK_S", 0.01)
    monkeypatch.setattr(supervisor, "_ASK_S", 0.02)
    asked = threading.Event()
    times = iter([raising(OSError(errno.EMFILE, "odd"))])

    def ask(*_: Any, now: bool) -> None:
        next(times, lambda: asked.set())()

    watching = supervised(None, lambda _: None, ask)
    watching.attend(lambda: set(RANKS))
    assert asked.wait(DEADLINE_S)
    assert "OSError: [Errno 24] odd" in capsys.readouterr().err
    watching.join()
