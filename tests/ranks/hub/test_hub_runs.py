"""Runs as a browser sees them: the list, pages of logs of any size, and the events of one that goes on or has ended."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from hub_server import Browser, Server
from nvml import GPU_IS_LOST, build_nvml

from jupyter_ddl import paths
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import (
    MetricsSample,
    OutputChunk,
    RankFinished,
    RichOutput,
    RunFinished,
    RunStarted,
    StragglerMarked,
)
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.folder import this_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server whose runs are the ones that these tests make, on a host whose NVML does not work."""
    folder = tmp_path_factory.mktemp("hub")
    before = os.environ[paths.RUNS_VARIABLE]
    os.environ[paths.RUNS_VARIABLE] = str(folder / "runs")
    try:
        with Server(folder, variables=build_nvml(folder, [], init_result=GPU_IS_LOST)) as server:
            yield server
    finally:
        os.environ[paths.RUNS_VARIABLE] = before


class Recorded:
    """A run's folder, written as the kernel writes it."""

    def __init__(self, run: str, **fields: Any) -> None:
        self.run = run
        self.path: Path = paths.runs_dir() / run
        self.path.mkdir(parents=True)
        (self.path / "cell.py").write_text("hvd.init()")
        self.record = {"run": run, "start_s": time.time(), "ranks": [0, 1], "world_size": 2, **fields}
        self.write()

    def write(self, **fields: Any) -> None:
        self.record.update(fields)
        (self.path / "run.json").write_text(json.dumps(self.record))

    def add(self, *events: Event) -> None:
        with (self.path / "events.jsonl").open("ab") as file:
            file.write(b"".join(map(as_line, events)))


def going_on(name: str) -> Recorded:
    return Recorded(f"2026-11-20T18-03-07-{name}-0001", session=this_process())


def over(name: str, *events: Event, **fields: Any) -> Recorded:
    run = Recorded(f"2026-11-20T18-03-07-{name}-0001", outcome="finished", seconds=2.5, **fields)
    run.add(*events, RunFinished(run.run, "finished", 2.5))
    return run


def sample(run: str, rank: int, at_s: float) -> MetricsSample:
    return MetricsSample(
        run, rank, at_s, 50.0, 2**30, model="m", step=int(at_s), steps=1, step_s=0.5, samples_per_s=100.0
    )


def out(run: str, text: str) -> OutputChunk:
    return OutputChunk(run, 0, "stdout", text)


def of(browser: Browser, run: str) -> list[dict[str, Any]]:
    return [batch for name, batch in browser.batches if name == run]


def take_all(browser: Browser, run: str, up_to: int) -> list[Any]:
    """Draw batches as a browser does until there are so many events; return them."""
    while not (got := of(browser, run)) or got[-1]["next"] < up_to:
        known = len(got)
        browser.until(lambda known=known: len(of(browser, run)) > known)
        browser.send(type="taken", run=run, next=of(browser, run)[-1]["next"])
    return [event for batch in of(browser, run) for event in batch["events"]]


def test_the_list_is_paged_searched_and_words_stand_for_nan(server: Server) -> None:
    for number in range(5):
        second = Recorded(f"2026-11-19T18-03-0{number}-list-000{number}", outcome="finished", loss=float("nan"))
        second.write(model="Big, 1,000 parameters" if number % 2 else "Small", devices={"0": "CPU"}, threads=2)
    page = server.ask("GET", "runs?limit=2&search=-list-").json
    assert [run["run"][-1] for run in page["runs"]] == ["4", "3"]
    assert page["more"]
    page = server.ask("GET", f"runs?limit=2&search=-list-&before={page['next']}").json
    assert [run["run"][-1] for run in page["runs"]] == ["2", "1"]
    page = server.ask("GET", f"runs?limit=2&search=-list-&before={page['next']}").json
    assert ([run["run"][-1] for run in page["runs"]], page["more"], page["next"]) == (["0"], False, None)
    assert page["runs"][0]["loss"] == "NaN"
    assert page["runs"][0]["state"] == "finished"
    assert "path" not in page["runs"][0]
    assert [run["run"][-1] for run in server.ask("GET", "runs?search=BIG").json["runs"]] == ["3", "1"]
    assert server.ask("GET", "runs?search=no%20such").json == {"runs": [], "more": False, "next": None}


def test_devices_that_cannot_be_seen_are_told(server: Server) -> None:
    reply = server.ask("GET", "devices")
    assert reply.status == 503
    assert reply.json["message"].startswith("NVML, which knows the GPUs of this host, must work. Received: ")


def test_a_run_has_its_cell_hosts_and_devices(server: Server) -> None:
    run = over("details", hosts={"0": "node-a"}, devices={"0": "CPU"}, cluster="default")
    content = server.ask("GET", f"runs/{run.run}").json
    assert content["cell"] == "hvd.init()"
    assert (content["hosts"], content["devices"], content["cluster"]) == ({"0": "node-a"}, {"0": "CPU"}, "default")
    assert (content["ranks"], content["seconds"]) == ([0, 1], 2.5)


def test_a_run_with_a_fault_has_it_as_data_and_as_text_and_stands_in_the_list(server: Server) -> None:
    fault = Fault("lost", "rank", (1,), "node-a", 5.0, facts=Facts(world_size=2, signum=9))
    run = over("faulty", fault=asdict(fault))
    content = server.ask("GET", f"runs/{run.run}").json
    assert content["fault"]["facts"]["signum"] == 9
    assert content["fault"]["text"] == "rank 1 on node-a was ended by signal 9 (Killed)."
    assert [record["fault"] for record in server.ask("GET", "runs?search=-faulty").json["runs"]] == [None]


def test_a_run_that_trained_and_is_over_has_a_picture(server: Server) -> None:
    trained = over("pictured", RunStarted("r", (0, 1), 2, 1.0), *(sample("r", rank, 2.0) for rank in (0, 1)))
    found = server.ask("GET", f"runs/{trained.run}/picture").json
    assert found["image/svg+xml"].startswith("<svg")
    assert "jupyter-ddl-final-state" in found["image/svg+xml"]
    assert "200" in found["text/plain"]
    # Of a run that was cut off no event says so.
    cut = going_on("pictured-cut")
    cut.add(RunStarted(cut.run, (0, 1), 2, 1.0), sample(cut.run, 0, 2.0))
    rule = "A run leaves a picture when it has trained and is over. Received: "
    assert server.ask("GET", f"runs/{cut.run}/picture").json["message"] == f"{rule}{cut.run}."
    cut.write(session={**this_process(), "pid": 1 << 30})
    assert "cut off" in server.ask("GET", f"runs/{cut.run}/picture").json["image/svg+xml"]
    reply = server.ask("GET", f"runs/{over('bare', RunStarted('r', (0,), 2, 1.0)).run}/picture")
    assert reply.status == 404


def test_a_run_that_goes_on_is_not_deleted_and_one_that_is_over_is(server: Server) -> None:
    running = going_on("kept")
    reply = server.ask("DELETE", f"runs/{running.run}")
    told = f"A run is deleted when it is over. Received: {running.run}, but it is running."
    assert (reply.status, reply.json["message"]) == (409, told)
    ended = over("foreign")
    (ended.path / "100% mine.txt").write_text("")
    reply = server.ask("DELETE", f"runs/{ended.run}")
    assert reply.status == 409
    assert reply.json["message"].endswith("but it holds files that are not a run's: 100% mine.txt.")
    (ended.path / "100% mine.txt").unlink()
    assert server.ask("DELETE", f"runs/{ended.run}").status == 204
    assert not ended.path.exists()
    assert running.path.is_dir()


def test_a_log_of_two_gigabytes_opens_at_once_at_either_end_and_within(server: Server) -> None:
    run = going_on("large")
    line, size = b"a line of the log, number %09d\n", 2 << 30
    with (run.path / "rank-0.log").open("wb") as file:
        file.write(b"".join(line % number for number in range(1000)))
        file.seek(size)
        file.write(b"\n" + b"".join(line % number for number in range(1000)) + b"100 %\r")
    began_s = time.monotonic()
    lines = f"runs/{run.run}/lines?rank=0"
    (told,) = server.ask("GET", f"runs/{run.run}/logs").json
    first = server.ask("GET", f"{lines}&after=start").json
    assert first["lines"][0][:3] == [0, 1, "a line of the log, number 000000000"]
    last = server.ask("GET", lines).json
    assert last["lines"][-1][2].endswith("number 000000999")
    assert (last["unfinished"], last["bytes"]) == ([[0, "100 %"]], told["bytes"])
    server.ask("GET", f"{lines}&share=500000")
    place = last["begin"]
    found = None
    while found is None:
        # A page looks at a part of the log.
        sought = server.ask("GET", f"{lines}&pattern=NUMBER%20000000500&after={place}&most=1").json
        found, place = next(iter(sought["lines"]), None), sought["next"]
    assert found[2] == "a line of the log, number 000000500"
    assert server.ask("GET", f"{lines}&after={found[3]}&most=1").json["lines"] == [found]
    none = server.ask("GET", f"{lines}&pattern=zzz&after=start").json
    assert (none["lines"], none["at_end"]) == ([], False)
    assert time.monotonic() - began_s < 5
    (run.path / "rank-0.log").unlink()


def test_logs_are_sent_whole_as_files(server: Server) -> None:
    run = over("file")
    (run.path / "rank-0.log").write_bytes(b"a\rb\n" * 500_000 + b"cut off")
    (run.path / "rank-1.log").write_bytes(b"x\n")
    one = server.ask("GET", f"runs/{run.run}/log-file?rank=0")
    assert one.body == (run.path / "rank-0.log").read_bytes()
    assert dict(one.headers)["Content-Disposition"] == f'attachment; filename="{run.run}-rank-0.log"'
    assert dict(one.headers)["Content-Type"] == "text/plain; charset=utf-8"
    every = server.ask("GET", f"runs/{run.run}/log-file")
    lines = sorted(every.body.split(b"\n"))
    assert lines == [b"", *[b"[0] a\rb"] * 500_000, b"[0] cut off", b"[1] x"]


def test_more_requests_than_the_hub_takes_are_refused_and_none_is_lost(server: Server) -> None:
    run = going_on("searched")
    with (run.path / "rank-0.log").open("wb") as file:
        file.truncate(32 << 20)
    address = f"runs/{run.run}/lines?rank=0&pattern=zzz&after=start"
    with ThreadPoolExecutor(100) as threads:
        replies = list(threads.map(lambda _: server.ask("GET", address), range(100)))
    refused = [reply for reply in replies if reply.status == 503]
    assert 0 < len(refused) < 90
    told = "The hub takes 32 requests at a time. Received: one more. Ask again when others have been answered."
    assert {reply.json["message"] for reply in refused} == {told}
    assert all(reply.json["lines"] == [] for reply in replies if reply.status == 200)
    assert server.ask("GET", address).status == 200


def test_a_finished_run_comes_whole_and_from_any_number_on(server: Server) -> None:
    run = "2026-11-20T18-03-07-whole-0001"
    events = [RunStarted(run, (0, 1), 2, 1.0), *(sample(run, at % 2, float(at)) for at in range(20)), out(run, "end\n")]
    over("whole", *events, RankFinished(run, 0, 30.0))
    with server.browser() as browser:
        browser.send(type="watch", run=run)
        told = take_all(browser, run, 24)
        assert len(of(browser, run)) == 1
        samples = [event for event in told if event["type"] == "metrics"]
        assert [event["type"] for event in told if event["type"] != "metrics"] == [
            *("run_started", "output", "rank_finished", "run_finished")
        ]
        assert [(event["run"], event["model"]) for event in samples] == [(run, "m")] * 20
        browser.batches.clear()
        browser.send(type="watch", run=run, next=21)
        browser.until(lambda: browser.batches)
    assert (browser.batches[0][1]["first"], browser.batches[0][1]["next"]) == (21, 24)
    assert [event["type"] for event in browser.batches[0][1]["events"]] == ["output", "rank_finished", "run_finished"]


def test_a_run_that_goes_on_is_read_on_and_rich_output_only_numbered(server: Server) -> None:
    run = going_on("on")
    run.add(RunStarted(run.run, (0, 1), 2, 1.0), RichOutput(run.run, 0, "result", {"image/png": "x" * (5 << 20)}))
    with server.browser() as browser, (run.path / "events.jsonl").open("ab") as file:
        browser.send(type="watch", run=run.run)
        assert take_all(browser, run.run, 2)[0]["type"] == "run_started"
        line = as_line(out(run.run, "half a line is none\n"))
        file.write(line[:20])
        file.flush()
        browser.send(type="control", id="1", kernel="nobody", do="stacks", arguments={})
        browser.wait_for("answer")
        file.write(line[20:] + as_line(RunFinished(run.run, "finished", 1.0)))
        file.flush()
        assert [event["type"] for event in take_all(browser, run.run, 4)] == ["run_started", "output", "run_finished"]


def test_a_run_whose_kernel_was_killed_ends_with_what_its_ranks_wrote(server: Server) -> None:
    run = going_on("killed")
    started = RunStarted(run.run, (0, 1), 2, 1.0)
    run.add(started)
    with server.browser() as browser:
        browser.send(type="watch", run=run.run)
        take_all(browser, run.run, 1)
        late = as_line(OutputChunk(run.run, 1, "stdout", "later\n", n=1)), as_line(RankFinished(run.run, 1, 9.0, n=2))
        (run.path / "rank-1.events.jsonl").write_bytes(b"".join(late))
        run.write(session={**this_process(), "pid": 1 << 30})
        assert [event["type"] for event in take_all(browser, run.run, 3)] == ["run_started", "output", "rank_finished"]


def test_who_draws_slowly_is_skipped_forward(server: Server) -> None:
    run = going_on("slow")
    run.add(RunStarted(run.run, (0, 1), 2, 1.0))
    with server.browser() as browser:
        browser.send(type="watch", run=run.run)
        browser.until(lambda: of(browser, run.run))
        for at in range(2000):
            run.add(out(run.run, f"{at:0999}\n"), sample(run.run, 0, at / 1000))
        browser.send(type="control", id="1", kernel="nobody", do="stacks", arguments={})
        browser.wait_for("answer")
        assert len(of(browser, run.run)) == 1
        browser.send(type="taken", run=run.run, next=1)
        take_all(browser, run.run, 4001)
    told = [event for batch in of(browser, run.run) for event in batch["events"]]
    shown = sum(len(event["text"]) for event in told if event["type"] == "output")
    skipped = sum(event.get("skipped_bytes", 0) for event in told if event["type"] == "output")
    assert shown + skipped == 2_000_000
    assert skipped > 1_000_000
    # A sample a slot of time stays.
    assert sum(event["type"] == "metrics" for event in told) < 50


def test_many_marks_and_samples_stay_bounded(server: Server) -> None:
    run = "2026-11-20T18-03-07-long-0001"
    events: list[Event] = [sample(run, at % 8, float(at // 8)) for at in range(40_000)]
    events += [StragglerMarked(run, 0, float(at), at % 2 == 0, 1.5, "input") for at in range(6_000)]
    over("long", *events)
    with server.browser() as browser:
        browser.send(type="watch", run=run)
        told = take_all(browser, run, 46_001)
    assert len(of(browser, run)) == 1
    assert 10_000 < sum(event["type"] == "metrics" for event in told) <= 24_000
    assert sum(isinstance(event, dict) and event["type"] == "straggler" for event in told) == 4_000
