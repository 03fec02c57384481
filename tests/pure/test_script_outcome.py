"""What a script's terminal says of ranks that ended before others, that had to be killed, or that exited."""

from __future__ import annotations

import time

import pytest

from jupyter_ddl.engine.script_guard import _status
from jupyter_ddl.launch.place import HERE
from jupyter_ddl.paths import HOST_LOST_VARIABLE
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.protocol.faults import Facts, Fault, MemoryExcess
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.script import host_watch
from jupyter_ddl.script.outcome import Ending


def failed(rank: int, name: str, *, released: bool) -> RankFailed:
    return RankFailed("script", rank, "host", name, "", (f"{name}: as it was",), released, 1.0)


def ended(*events: RankFailed | RankFinished, given_up: tuple[int, ...] = ()) -> list[str]:
    """Return the lines that the terminal prints of two ranks' end."""
    run = Run(RunFolder("script"), (0, 1), 2)
    for event in events:
        run.handle(event)
    ending = Ending(run)
    ending.given_up = given_up
    outcome = ending.outcome(1, "")
    assert outcome.status == 1
    return outcome.report.splitlines()


def test_a_collective_that_another_ranks_end_breaks_is_told() -> None:
    assert ended(RankFinished("script", 1, 0.5), failed(0, "HorovodInternalError", released=True)) == [
        *("Rank 0 of 2 on host", "HorovodInternalError: as it was", ""),
        "Rank 1 had ended before, and Horovod with it",
    ]


def test_a_rank_that_did_not_answer_and_was_killed_is_told() -> None:
    assert ended(failed(1, "ValueError", released=False), given_up=(0,)) == [
        *("Rank 1 of 2 on host", "ValueError: as it was", ""),
        "Rank 0 had not ended by then, and had to be killed",
    ]


def test_a_host_that_was_lost_is_told_before_what_its_loss_broke() -> None:
    run = Run(RunFolder("script"), (0, 1), 2)
    run.handle(failed(0, "HorovodInternalError", released=True))
    ending = Ending(run)
    ending.lost = Fault("lost", "host", (1,), "nodeb", 1.0, facts=Facts(world_size=2, seconds=61.2))
    outcome = ending.outcome(137, "mpiexec noticed that a process was killed", ())
    assert (outcome.status, outcome.name) == (1, "lost")
    assert outcome.report == (
        "Ranks must live to the end of the script. Received: nodeb has not answered for 1 min 1 s: it is down, or its "
        "network is, and with it rank 1."
    )


def test_only_ranks_that_are_there_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Fault("lost", "host", (1,), "nodeb", 1.0)
    asked: list[tuple[dict[int, float], float]] = []

    def look(quiet: dict[int, float], ready: dict[int, RankReady], _processes: object, after_s: float) -> Fault | None:
        asked.append((quiet, after_s))
        return lost if ready.keys() == quiet.keys() else None

    monkeypatch.setattr(host_watch, "lost_host", look)
    monkeypatch.setattr(host_watch, "_TICK_S", 0.01)
    monkeypatch.setenv(HOST_LOST_VARIABLE, "20")
    ready = {1: RankReady(1, 2, 0, "nodeb", 77, "CPU", 1)}
    watch = host_watch.HostWatch(HERE, {"nodeb": "nodeb"}, ready)
    deadline_s = time.monotonic() + 30
    with watch.watching(lambda: {0: 99.0, 1: 21.0}):
        while watch.lost is None:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    assert (watch.lost, asked) == (lost, [({1: 21.0}, 20.0)])


def test_a_script_whose_hosts_can_no_longer_be_watched_ends(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host_watch, "_TICK_S", 0.01)
    watch = host_watch.HostWatch(HERE, {"nodeb": "nodeb"}, {})

    def quiet() -> dict[int, float]:
        raise RuntimeError("no more threads")

    deadline_s = time.monotonic() + 30
    with watch.watching(quiet):
        while watch.lost is None:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    ending = Ending(Run(RunFolder("script"), (0, 1), 2))
    ending.lost = watch.lost
    assert ending.outcome(0, "", ()).report == (
        "Ranks must live to the end of the script. Received: the hosts of the ranks can no longer be watched "
        "(RuntimeError: no more threads)."
    )
    assert "no more threads" in capfd.readouterr().err


def test_a_rank_that_held_too_much_memory_ends_the_script_as_a_kill_does() -> None:
    ending = Ending(Run(RunFolder("script"), (0, 1), 2))
    facts = Facts(excess=MemoryExcess(2**30, 1, 2**29, "the profile small"))
    ending.lost = Fault("lost", "rank", (1,), "host", 1.0, "memory limit", facts=facts)
    outcome = ending.outcome(143, "mpiexec noticed that a process was killed")
    assert (outcome.status, outcome.name) == (137, "lost")
    assert outcome.report.startswith(
        "Ranks must live to the end of the script. Received: rank 1 on host was ended, since it held 1 GiB of memory "
        "and may hold 0.5 GiB. The limit is set by the profile small. "
    )


@pytest.mark.parametrize(
    ("code", "status"), [(0, 0), (None, 0), (7, 7), (256, 0), ("too few images", 1), (True, 1), (-1, 255)]
)
def test_the_status_of_an_exit_is_pythons(code: object, status: int) -> None:
    assert _status(SystemExit(code)) == status
