"""A run's events as TensorBoard reads them: of each rank and of all, while the run goes on and after it was cut off."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from run_folders import make_run, own_session, write_events
from users import STRANGER, as_user, needs_root

from jupyter_ddl.cli import main
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample, RunFinished, RunStarted
from jupyter_ddl.tensorboard import installed, log_folders, run_scalars
from jupyter_ddl.tensorboard.event_files import EventFiles
from jupyter_ddl.tensorboard.run_scalars import RunScalars, exported

pytest.importorskip("tensorboard")

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event

RUN = "2026-11-20T18-03-07-default-3f9c"
BEGAN_S = 1_700_000_000.0


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def sample(rank: int, second: int, **given: Any) -> MetricsSample:
    known = {"samples_per_s": 100.0 + rank, "step_s": 0.1, "loss": 1.0 / second + rank, "metrics": {"accuracy": 0.5}}
    return MetricsSample(RUN, rank, BEGAN_S + second + rank / 10, 50.0, 2**30, step=10 * second, **{**known, **given})


def begun(ranks: int = 2) -> RunStarted:
    return RunStarted(RUN, tuple(range(ranks)), ranks, BEGAN_S)


def trained(seconds: int = 3) -> list[Event]:
    return [begun(), *(sample(rank, second) for second in range(1, seconds + 1) for rank in (0, 1))]


def append(folder: Path, *events: Event) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(encode(event)) + "\n" for event in events)


def read(logs: Path) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return what TensorBoard's own reader finds: whose -> tag -> (step, value)."""
    code = (
        "import json, sys, types\n"
        "sys.modules['tensorboard.compat.notf'] = types.ModuleType('tensorboard.compat.notf')\n"
        "from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer\n"
        "found = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])\n"
        "found.Reload()\n"
        "def value(run, tag):\n"
        "    from tensorboard.util.tensor_util import make_ndarray\n"
        "    return [(one.step, float(make_ndarray(one.tensor_proto))) for one in found.Tensors(run, tag)]\n"
        "print(json.dumps({run: {tag: value(run, tag) for tag in tags['tensors']} "
        "for run, tags in found.Runs().items()}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(logs)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return {run: {tag: [tuple(one) for one in values] for tag, values in tags.items()} for run, tags in found.items()}


def test_scalars_are_of_each_rank_and_of_all(tmp_path: Path) -> None:
    ended = [
        EpochEnded(RUN, 0, BEGAN_S + 2, 0, 20, {"loss": 0.5, "val_loss": 0.75}),
        EpochEnded(RUN, 0, BEGAN_S + 3, 1, 30, {"loss": 0.25}),
        # Another fit.
        EpochEnded(RUN, 0, BEGAN_S + 4, 0, 40, {"loss": 0.125}),
    ]
    folder = make_run(RUN, outcome="finished")
    write_events(folder, [*trained(), *ended, RunFinished(RUN, "finished", 4.0)])
    assert exported(folder, tmp_path / "logs").is_over
    found = read(tmp_path / "logs")
    assert sorted(found) == ["all ranks", "rank 0", "rank 1"]
    assert found["rank 1"]["metrics/loss"] == [(10, 2.0), (20, 1.5), (30, pytest.approx(4 / 3))]
    assert found["rank 1"]["metrics/accuracy"] == [(10, 0.5), (20, 0.5), (30, 0.5)]
    assert found["rank 0"]["speed/samples_per_s"] == [(10, 100.0), (20, 100.0), (30, 100.0)]
    assert found["rank 0"]["usage/cpu_pct"] == [(1, 50.0), (2, 50.0), (3, 50.0)]
    assert "usage/gpu_pct" not in found["rank 0"]
    everyone = found["all ranks"]
    assert everyone["speed/samples_per_s"] == [(10, 201.0), (20, 201.0), (30, 201.0)]
    assert everyone["metrics/loss"] == [(10, 1.5), (20, 1.0), (30, pytest.approx(1 / 3 + 0.5))]
    assert everyone["epoch/loss"] == [(0, 0.5), (1, 0.25), (2, 0.125)]
    assert everyone["epoch/val_loss"] == [(0, 0.75)]


def test_ranks_beyond_the_first_64_count_in_the_curves_of_all(tmp_path: Path) -> None:
    folder = make_run(RUN, outcome="finished")
    write_events(folder, [begun(66), *(sample(rank, 1) for rank in range(66)), RunFinished(RUN, "finished", 4.0)])
    exported(folder, tmp_path / "logs")
    found = read(tmp_path / "logs")
    assert sorted(found) == sorted(["all ranks", *(f"rank {rank}" for rank in range(64))])
    assert found["all ranks"]["speed/samples_per_s"] == [(10, sum(100.0 + rank for rank in range(66)))]


def test_a_run_that_goes_on_is_followed(tmp_path: Path) -> None:
    folder = make_run(RUN, session=own_session())
    write_events(folder, trained(1))
    scalars = exported(folder, tmp_path / "logs")
    assert not scalars.is_over
    assert read(tmp_path / "logs")["rank 0"]["metrics/loss"] == [(10, 1.0)]
    # Half a line is not one yet.
    line = json.dumps(encode(sample(0, 2)))
    with (folder / "events.jsonl").open("a") as file:
        file.write(line[:30])
    assert not scalars.write_on()
    with (folder / "events.jsonl").open("a") as file:
        file.write(line[30:] + "\n")
    append(folder, sample(1, 2), sample(0, 3))
    scalars.write_all()
    assert read(tmp_path / "logs")["rank 0"]["metrics/loss"] == [(10, 1.0), (20, 0.5), (30, pytest.approx(1 / 3))]
    append(folder, RunFinished(RUN, "finished", 3.0))
    scalars.write_all()
    assert scalars.is_over
    assert read(tmp_path / "logs")["all ranks"]["metrics/loss"][-1] == (30, pytest.approx(1 / 3))


def test_what_ranks_wrote_after_their_kernel_was_killed_is_there(tmp_path: Path) -> None:
    folder = make_run(RUN, session={**own_session(), "pid": 2**22 - 1})
    write_events(folder, [begun(), sample(0, 1, n=1)])
    write_events(folder, [sample(0, 1, n=1), sample(0, 2, n=2)], "rank-0.events.jsonl")
    scalars = exported(folder, tmp_path / "logs")
    assert scalars.is_over
    assert read(tmp_path / "logs")["rank 0"]["metrics/loss"] == [(10, 1.0), (20, 0.5)]


def test_odd_figures_and_names_are_no_end(tmp_path: Path) -> None:
    folder = make_run(RUN, outcome="finished")
    odd = [
        sample(0, 1, loss=math.nan, samples_per_s=math.inf, metrics={"\ud800": 1e300, "../x": -math.inf, "": 2.0}),
        sample(1, 1, loss=math.inf, samples_per_s=-math.inf),
        replace(sample(0, 2), step=-1),
        replace(sample(0, 2), step=2**63 - 1),
        replace(sample(0, 2), at_s=math.nan),
        replace(sample(0, 2), at_s=1e300),
        EpochEnded(RUN, 0, math.nan, 0, 1, {"loss": 1.0}),
        EpochEnded(RUN, 0, BEGAN_S, -5, 1, {"loss": 1.0}),
    ]
    write_events(folder, [begun(), *odd, sample(0, 3), RunFinished(RUN, "finished", 4.0)])
    exported(folder, tmp_path / "logs")
    found = read(tmp_path / "logs")
    assert math.isnan(found["rank 0"]["metrics/loss"][0][1])
    assert found["rank 0"]["speed/samples_per_s"][0][1] == math.inf
    assert math.isnan(found["all ranks"]["speed/samples_per_s"][0][1])
    assert found["rank 0"]["metrics/loss"][-1] == (30, pytest.approx(1 / 3))
    assert sorted(one.name for one in (tmp_path / "logs").iterdir()) == ["all ranks", "rank 0", "rank 1"]


def test_no_tensorflow_is_imported(tmp_path: Path) -> None:
    folder = make_run(RUN, outcome="finished")
    write_events(folder, trained())
    code = (
        "import sys; from pathlib import Path; from jupyter_ddl.tensorboard.run_scalars import exported\n"
        "exported(Path(sys.argv[1]), Path(sys.argv[2])); print('tensorflow' in sys.modules)\n"
    )
    argv = [sys.executable, "-c", code, str(folder), str(tmp_path / "logs")]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "False\n"


def test_the_command_line_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_events(make_run(RUN, outcome="finished"), [*trained(), RunFinished(RUN, "finished", 4.0)])
    logs = tmp_path / "logs"
    assert main(["tensorboard", "--export", "3f9c", str(logs)]) == 0
    assert capsys.readouterr().out == (
        f"Written: {logs}. To show it: %ddl tensorboard {logs}, or tensorboard --logdir {logs}\n"
    )
    assert main(["tensorboard", "--export", "3f9c", str(logs)]) == 1
    assert capsys.readouterr().err == (
        "jupyter ddl: Scalars are written to a folder of their own. "
        f"Received: {logs}, which is not empty. Name another folder.\n"
    )
    assert main(["tensorboard", "--export", "--follow", "3f9c", str(tmp_path / "more")]) == 0
    assert main(["tensorboard", "--export", "3f9c", __file__]) == 1
    assert f"Received: {__file__}, which is a file. Name another folder." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["tensorboard", "3f9c"])
    assert "the following arguments are required: --export" in capsys.readouterr().err


def test_a_run_without_figures_is_refused(tmp_path: Path) -> None:
    folder = make_run(RUN, outcome="finished")
    write_events(folder, [begun(), RunFinished(RUN, "finished", 0.1)])
    with pytest.raises(
        InvalidInput, match=r"A run that is exported has figures\. Received: \S+, of which none were meas"
    ):
        exported(folder, tmp_path / "logs")


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    folder = make_run(RUN, outcome="finished")
    write_events(folder, trained())
    (tmp_path / "file").touch()
    with pytest.raises(
        InvalidInput, match=r"that you may write to\. Received: \S+/file/logs \(Not a directory\)\. Name"
    ):
        exported(folder, tmp_path / "file" / "logs")


def test_without_tensorboard_pips_line_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput) as raised:
        run_scalars.exported(tmp_path, tmp_path / "logs")
    assert str(raised.value) == (
        "TensorBoard must be installed where it is to run. "
        f"Received: none in {sys.prefix}. Run: {sys.executable} -m pip install tensorboard"
    )


def test_a_runs_own_folder_is_what_its_program_named(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for named, notebook, found in (
        (str(tmp_path / "logs"), None, tmp_path / "logs"),
        ("logs", str(tmp_path / "a.ipynb"), tmp_path / "logs"),
        ("logs", None, None),
        (str(tmp_path / "gone"), None, None),
        (3, None, None),
    ):
        record = run_scalars_record(named, notebook)
        assert log_folders.own_folder(record) == found


def run_scalars_record(named: object, notebook: str | None) -> Any:
    from jupyter_ddl.runs.store import RunRecord

    parameters: dict[str, Any] = {"tensorboard": named}
    return RunRecord(
        path=None,
        run=RUN,
        start_s=0,
        ranks=(),
        world_size=1,
        state="finished",
        notebook=notebook,
        parameters=parameters,
    )  # type: ignore[arg-type]


def test_a_folder_of_another_user_is_refused() -> None:
    needs_root()
    # What lies above is open to all, as pytest's own folders are not.
    with tempfile.TemporaryDirectory(prefix="ddl-") as above:
        Path(above).chmod(0o755)
        folder = Path(above) / "theirs"
        folder.mkdir(mode=0o700)

        def told() -> str:
            try:
                log_folders.checked(str(folder))
            except InvalidInput as error:
                return str(error)
            return ""

        assert told() == ""
        rule = "TensorBoard shows a folder of logs that exists and can be read."
        received = f"Received: {str(folder)!r}, which you may not read. Ask its owner, or copy it."
        assert as_user(STRANGER, told) == f"{rule} {received}"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InvalidInput, match="TensorBoard shows a folder of logs that exists"):
        log_folders.checked(str(tmp_path / "a"))


def test_many_ranks_take_few_files(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for rank in range(300):
        files.add(f"rank {rank}", BEGAN_S, 1, {"a": 1.0})
    files.flush()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(list(tmp_path.iterdir())) == 300


def test_the_run_is_written_by_the_scalars_alone(tmp_path: Path) -> None:
    """Nothing is written into the run's folder, which would then not be pruned."""
    folder = make_run(RUN, outcome="finished")
    write_events(folder, trained())
    before = sorted(folder.iterdir())
    RunScalars(folder, tmp_path / "logs").write_all()
    assert sorted(folder.iterdir()) == before
