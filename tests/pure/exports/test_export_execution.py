"""An export where it runs: its ranks, its points, the page of a sweep, and what is printed."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import loops
import nbformat
import pytest

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export import cell_teller, execution, results
from jupyter_ddl.export.order import ExportFolder, ExportOrder
from jupyter_ddl.kernel import exported
from jupyter_ddl.launch.profiles.profile import Defaults, Named, Profile
from jupyter_ddl.launch.profiles.start_options import StartOptions
from jupyter_ddl.protocol.exported_job import ExportedJob
from jupyter_ddl.views.sweep_page import Curve, SweepRow, sweep_page

if TYPE_CHECKING:
    from pathlib import Path


def test_ranks_start_in_the_job_whatever_the_notebook_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported.job() is None
    monkeypatch.setenv(paths.EXPORT_VARIABLE, '{"type": "exported_job", "ranks": 4, "suffix": "3f9c"}')
    job = exported.job()
    assert job == ExportedJob(4, "3f9c")
    named = StartOptions(None, 3, {"A": "1"}, "elsewhere:9", "file", "ssh -p 7", local=True, container="ddl.sif")
    assert exported.options_in_job(job, None, named) == StartOptions(4, 3, {"A": "1"}, container="ddl.sif")
    assert exported.options_in_job(job, None, StartOptions(2)).n == 2
    assert exported.options_in_job(ExportedJob(4, "a", "/etc/hosts"), None, named).hostfile == "/etc/hosts"
    assert [exported.name_in_job(job, name) for name in (None, "mine")] == ["default-3f9c", "mine-3f9c"]
    with pytest.raises(InvalidInput, match=r"as the notebook starts\. Received: n=5 in a job of 4\. Export it again"):
        exported.options_in_job(job, None, StartOptions(5))
    monkeypatch.setenv(paths.EXPORT_VARIABLE, "x")
    with pytest.raises(InvalidInput, match=r"set by `jupyter ddl execute`\. Received: 'x', which is none"):
        exported.job()


@pytest.mark.parametrize("launcher", ["local", "hosts", "slurm"])
def test_a_profile_that_the_notebook_names_says_all_but_where(launcher: Any) -> None:
    """Also one of a scheduler, where the job is of another one or of none."""
    profile = Profile(
        launcher=launcher,
        hosts="nodea:2" if launcher == "hosts" else None,
        ssh="ssh -p 7",
        environment={"A": "1"},
        container="ddl.sif",
        defaults=Defaults(ranks=2, threads=3),
    )
    found = exported.options_in_job(ExportedJob(4, "a"), Named("site", "site.toml", profile), StartOptions())
    assert found == StartOptions(2, 3, {"A": "1"}, container="ddl.sif")


def test_what_is_no_export_or_no_point_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["execute", str(tmp_path)]) == 1
    assert "must be a folder that `jupyter ddl export` made. Received:" in capsys.readouterr().err
    ExportFolder(tmp_path).write_order(ExportOrder("a", 2, str(tmp_path), str(tmp_path)))
    assert main(["execute", str(tmp_path), "--point", "1"]) == 1
    assert "has the points 0 to 0. Received: point 1." in capsys.readouterr().err
    monkeypatch.setattr(execution.importlib.util, "find_spec", lambda _: None)
    assert main(["execute", str(tmp_path)]) == 1
    assert "is run by papermill. Received: an environment without it. Install it: pip" in capsys.readouterr().err


def test_the_last_job_of_a_sweep_leaves_the_page_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    run = "2026-11-25T10-00-00-default-aa11-0f0f"
    made = tmp_path / "runs" / run
    made.mkdir(parents=True)
    record = {"run": run, "start_s": 1.0, "ranks": [0, 1], "world_size": 2, "outcome": "finished", "loss": 0.25}
    (made / "run.json").write_text(json.dumps(record))
    sample = {"type": "metrics", "run": run, "at_s": 1.0, "cpu_pct": 1.0, "rss_bytes": 1}
    lines = [sample | {"rank": 0, "step": step, "loss": 1 / step, "n": step} for step in (1, 2, 4)]
    (made / "rank-0.events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    order = ExportOrder("a <b>", 2, str(tmp_path), str(tmp_path / "runs"), [{"lr": 0.1}, {"lr": "<i>"}], ["lr"])
    folder = ExportFolder(tmp_path)
    before = results.Result(0, {"lr": 0.1}, "finished", 61.0, "", "aa11")
    first = results.with_runs(before, 1.0)
    assert (first.runs, first.loss, first.losses) == ([run], 0.25, [(1, 1.0), (2, 0.5), (4, 0.25)])
    # Those that began before are not looked at.
    assert results.with_runs(before, 2.0) == before
    results.write(folder, order, first)
    page = (tmp_path / "comparison.html").read_text()
    assert "1 of 2 points are over." in page
    assert "not there yet" in page
    results.write(folder, order, results.Result(1, {"lr": "<i>"}, "failed", 3.0, "ValueError: <script>", "bb22"))
    page = (tmp_path / "comparison.html").read_text()
    assert "2 of 2 points are over." in page
    assert '<td class="number best">0.25</td>' in page
    assert "<polyline" in page
    assert "&lt;script&gt;" in page
    assert "&#x27;&lt;i&gt;&#x27;" in page
    assert not any(text in page for text in ("<script", "<i>", "<b>", "http"))
    assert sorted(path.name for path in tmp_path.glob("result*")) == ["result-0.json", "result-1.json"]


def test_a_page_without_figures_and_with_strange_ones() -> None:
    assert "0 of 0 points" in sweep_page("none", [], [])
    rows = [SweepRow({"a": 1}, "finished", 1.0, float("nan")), SweepRow({"a": 2}, "stopped", 2.0, 0.5)]
    page = sweep_page("nan", rows, [Curve({"a": 1}, [(1, float("nan"))])])
    assert "nan</td>" in page
    assert 'best"' not in page
    assert "<svg" not in page
    many = [Curve({"a": at}, [(0, 1.0), (5, 1.0)]) for at in range(9)]
    assert sweep_page("many", rows, many).count("<polyline") == 9


def test_what_a_cell_shows_is_printed_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_teller, "_EVERY_S", 0.05)
    teller = cell_teller.CellTeller("  ")
    cell = nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text="one\ntwo\n")])
    told = []

    async def run() -> None:
        teller.follow(cell)
        told.append(capsys.readouterr().out)
        for _ in range(2):
            before = len(told)
            while len(told) == before:
                await asyncio.sleep(0.01)
                if said := capsys.readouterr().out:
                    told.append(said)
        cell.outputs.append(nbformat.v4.new_output("display_data", data={"text/plain": "three"}))
        teller.follow(cell)
        teller.end(cell)

    loops.run(run())
    # The newest line comes once nothing has changed for a while.
    assert told == ["", "  one\n", "  two\n"]
    assert capsys.readouterr().out == "  three\n"
    other = nbformat.v4.new_code_cell("2", outputs=[nbformat.v4.new_output("stream", text="one\n")])
    teller.end(other)
    assert capsys.readouterr().out == "  one\n"


def test_a_late_line_above_others_is_printed_and_none_twice(capsys: pytest.CaptureFixture[str]) -> None:
    def cell_of(text: str) -> Any:
        return nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text=text)])

    teller = cell_teller.CellTeller()
    cell = cell_of("[0] epoch 1\n[0] epoch 2\n")
    teller.end(cell)
    cell.outputs = cell_of("[0-1] epoch 1\n[1] late\n[0] epoch 2\n[0] epoch 3\n").outputs
    teller.end(cell)
    cell.outputs = cell_of("[0-1] epoch 1\n[1] late\n[0-1] epoch 2\n[0] epoch 3\n").outputs
    teller.end(cell)
    assert capsys.readouterr().out.splitlines() == ["[0] epoch 1", "[0] epoch 2", "[1] late", "[0] epoch 3"]
