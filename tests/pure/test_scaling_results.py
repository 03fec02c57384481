"""Points, tables and plots of the scaling benchmark, and what its options refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from test_step_model import point

from jupyter_ddl import cli
from jupyter_ddl.errors import DdlError, InvalidInput
from jupyter_ddl.scaling import bench, sides
from jupyter_ddl.scaling.points import Point, efficiency, seconds_to, smoothed
from jupyter_ddl.scaling.step_model import Network
from jupyter_ddl.scaling.tables import milliseconds

if TYPE_CHECKING:
    from pathlib import Path

NETWORK = Network("ring", 1e-6, 1e-9, 1e-4)
PLAN = sides.Plan("cnn", 28, 10, 40, 1)


def found(loss: float | None = None) -> bench.Results:
    """Return the results of one and two ranks, and of a strategy on two that is half as fast."""
    ours = point(1, 64, NETWORK), point(2, 64, NETWORK)
    run = dict(ours[1].runs[0])
    run |= {"step_s": [2 * value for value in run["step_s"]], "compute_s": [], "exchange_s": [], "latency_s": None}
    return bench.results(PLAN, "made", "weak", (*ours, Point("multiworker", 2, 64, (run,))), loss)


def test_efficiency_is_against_one_rank_of_ours() -> None:
    one, two, strategy = found().points
    assert efficiency(one, one).median == pytest.approx(1.0)
    lost_s = NETWORK.allreduce_s(2, 400_000) - NETWORK.gamma_s
    assert efficiency(two, one).median == pytest.approx(one.step_s.median / (one.step_s.median + lost_s))
    assert efficiency(strategy, one).median == pytest.approx(efficiency(two, one).median / 2)


def test_a_figure_has_the_spread_of_the_runs() -> None:
    runs = tuple({"step_s": [value]} for value in (0.1, 0.2, 0.4))
    figure = Point("horovod", 2, 10, runs).images_per_s
    assert (figure.low, figure.median, figure.high) == (50, 100, 200)


def test_the_time_to_a_loss_is_that_of_the_smoothed_one() -> None:
    losses, elapsed_s = [3.0, 0.1, 3.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert smoothed(losses)[:3] == [3.0, 1.55, pytest.approx(6.1 / 3)]
    assert seconds_to(1.7, losses, elapsed_s) == 1.0
    assert seconds_to(0.5, losses, elapsed_s) is None


def test_the_table_says_the_machine_and_what_was_not_reached() -> None:
    text = bench.tables.text(found(loss=0.01))
    assert "not reached" in text
    assert "multiworker" in text
    assert f"{bench.machine()['cores']} cores" in text
    assert "GiB; load" in text
    # Both algorithms, up to 1,024 ranks, are told apart from what was measured.
    assert [line.split()[1] for line in text.splitlines() if line.lstrip().startswith("ring ")][-1] == "1024"
    assert "Beyond the measured ranks all is predicted" in text


def test_ranks_that_share_cores_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "usable_cores", lambda: 1)
    assert "2 ranks share 1 cores" in bench.tables.text(found())


def test_a_folder_has_json_tables_and_plots(tmp_path: Path) -> None:
    bench.write(found(), tmp_path / "out", pictures=True)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    plots = {
        f"{name}.{form}" for name in ("images_per_s", "efficiency", "step", "time_to_loss") for form in ("png", "svg")
    }
    assert names == {"results.json", "results.md"} | plots
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    assert record["machine"]["processor"]
    assert record["points"][1]["runs"][0]["exchange_s"]
    assert (tmp_path / "out" / "results.md").read_text().count("|---|") == 2


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("weak", [("horovod", 1, 64), ("horovod", 4, 64), ("grpc", 4, 64)]),
        ("strong", [("horovod", 1, 64), ("horovod", 4, 16), ("grpc", 4, 16)]),
    ],
)
def test_a_batch_stays_on_a_rank_or_on_all(mode: str, expected: list[tuple[str, int, int]]) -> None:
    assert bench.combinations([1, 4], ["grpc"], 64, mode) == expected


@pytest.mark.parametrize(("seconds", "text"), [(None, "-"), (0.0123, "12.3 ms"), (2.5, "2,500 ms")])
def test_times_are_in_milliseconds(seconds: float | None, text: str) -> None:
    assert milliseconds(seconds) == text


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"A side is one of TensorFlow's strategies. Received: gloo"):
        sides.check_rivals(["gloo"])


@pytest.mark.parametrize("given", ["", "0,1", "one"])
def test_ranks_are_numbers(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "scaling", "--ranks", given]) == 1
    assert "--ranks are numbers of ranks" in capsys.readouterr().err


def test_a_model_is_described_by_a_process_of_its_own(tmp_path: Path) -> None:
    described = sides.describe("hep-cnn")
    assert (described.batch_size, described.size) == (8, 224)
    assert "1708.05256" in described.source
    incomplete = tmp_path / "mine.py"
    incomplete.write_text("BATCH_SIZE = 4\n")
    with pytest.raises(DdlError, match="without model, data"):
        sides.describe(str(incomplete))
    with pytest.raises(DdlError, match=r"A model is one of the benchmark.s, or a Python file\. Received: none"):
        sides.describe("none")


def test_a_side_that_fails_says_what_it_printed(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no such port; exit 3"]
    with pytest.raises(DdlError, match=r"(?s)grpc on 2 ranks, exit status 3.*no such port"):
        sides.started(command, {}, tmp_path / "none.json", "grpc on 2 ranks")
