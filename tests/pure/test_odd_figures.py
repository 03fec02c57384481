"""NaN, infinity and other odd figures, from a rank to every file and view: shown as such, and nothing raises."""

from __future__ import annotations

import io
import json
import warnings
import xml.etree.ElementTree as ET
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from batches import read, read_packed
from jupyter_client.session import Session as Signer
from run_folders import make_run

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.emitter import Emitter
from jupyter_ddl.engine.event_log import Journal
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.engine.report import report
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.codec import as_json, as_line, decode, encode, json_value
from jupyter_ddl.protocol.events import Event, MetricsSample, RankFinished, RichOutput, RunFinished, RunStarted
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.reading import read_events
from jupyter_ddl.runs.store import read_record, single_rank_samples_per_s
from jupyter_ddl.runs.stragglers import Stragglers
from jupyter_ddl.runs.summary import Summary
from jupyter_ddl.server.tail import Tail
from jupyter_ddl.views.dashboard import Dashboard, show_finished
from jupyter_ddl.views.event_batches import to_json
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.metrics_table import MetricsTable, metrics_table
from jupyter_ddl.views.picture import picture
from jupyter_ddl.views.publish import JupyterPublisher
from jupyter_ddl.views.runs_table import duration, run_line, runs_table
from jupyter_ddl.views.terminal import TerminalView

if TYPE_CHECKING:
    from pathlib import Path

NAN, INF = float("nan"), float("inf")
ODD = [NAN, INF, -INF, -5.0, 1e308, 5e-324, 0.0, 10**400, -(10**400), True, np.float32("nan"), np.float64("inf")]
# What a rank measures of itself, each of which a clock or a driver that is out of its mind may spoil.
FIGURES = [field.name for field in fields(MetricsSample) if field.type in ("float", "float | None")]


def shortly(value: Any) -> str:
    """Return a test's name for a value."""
    return repr(value)[:20]


def strictly(text: str | bytes) -> Any:
    """Return what strict JSON holds, as a browser reads it: no literal NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def sample(rank: int = 0, at_s: float = 1.0, **more: Any) -> MetricsSample:
    trained = {"step": int(at_s), "steps": 4, "samples_per_s": 100.0, "step_s": 0.25, "loss": 0.5, "model": "m"}
    return MetricsSample("r", rank, at_s, 50.0, 2**30, **trained | {"exchange_s": 0.1, "input_s": 0.01} | more)


def run_with(odd: Any, name: str) -> list[Any]:
    """Return the events of a run of which one rank's figure is odd all the time."""
    samples = [
        replace(sample(rank, float(at)), **({name: odd} if rank else {})) for at in range(1, 12) for rank in (0, 1)
    ]
    loose = [replace(one, metrics={"auc": odd, "lr": odd}) for one in samples]
    ends = [RankFinished("r", rank, 12.0) for rank in (0, 1)]
    events = [RunStarted("r", (0, 1), 2, 0.0), *loose, *ends, RunFinished("r", "finished", 12.0)]
    # As they come out of the socket and the files.
    return [decode(strictly(as_line(event)), Event) for event in events]


@pytest.fixture(autouse=True)
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser's part, which these tests do not look into; and a folder of runs of their own."""
    for name in ("ESM", "CSS"):
        path = tmp_path / name
        path.write_text(f"/* {name} */")
        monkeypatch.setattr(f"jupyter_ddl.views.browser_files.{name}", path)
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()


@pytest.mark.parametrize("odd", ODD, ids=shortly)
def test_a_figure_comes_back_as_what_it_was(odd: Any) -> None:
    event = decode(strictly(as_line(sample(loss=odd, metrics={"auc": odd}))), Event)
    number = {10**400: INF, -(10**400): -INF}.get(odd, odd)
    np.testing.assert_equal(event.loss, number)
    np.testing.assert_equal(event.metrics["auc"], number)
    assert type(event.loss) in (int, float)
    # And again: what was read is what is written.
    assert as_line(event) == as_line(decode(as_line(event), Event))


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"])
def test_the_words_of_older_files_are_read_too(word: str) -> None:
    event = decode({**encode(sample()), "loss": word, "metrics": {"auc": word}}, Event)
    np.testing.assert_equal((event.loss, event.metrics["auc"]), (float(word), float(word)))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "loss",
            "0.5",
            r"A metrics message must be what its class says\. Received: Expected `float \| null`, got",
        ),
        ("loss", [1], r"got `array` - at `\$\.loss`\."),
        ("metrics", {"auc": "high"}, r"Expected `float`, got `str` - at `\$\.metrics\[\.\.\.\]`"),
        ("metrics", None, "Expected `object`, got `null`"),
        ("rank", "0", "Expected `int`, got `str`"),
        ("rank", 10**400, "Expected `int`"),
        ("rss_bytes", 0.5, "Expected `int`, got `float`"),
    ],
    ids=shortly,
)
def test_what_is_no_figure_is_no_event(tmp_path: Path, field: str, value: Any, said: str) -> None:
    wrong = {**encode(sample()), field: value}
    with pytest.raises(ValueError, match=said):
        decode(wrong, Event)
    (tmp_path / "events.jsonl").write_text(json.dumps(wrong) + "\n" + as_json(sample()).decode() + "\n")
    assert list(read_events(tmp_path / "events.jsonl")) == [sample()]


def test_what_a_cell_shows_comes_as_it_is() -> None:
    event = RichOutput("r", 0, "display", {"text/plain": "caf\ud800", "application/json": [{"x": "NaN"}]}, {}, "5")
    assert decode(as_line(event), Event) == event


def test_a_value_within_a_display_is_json_too() -> None:
    bundle = {"application/json": {"x": [NAN, (INF, np.int64(3))], "n": 10**400, "text": "NaN", "yes": True}}
    assert json_value(bundle) == {
        "application/json": {"x": ["NaN", ["Infinity", 3]], "n": "Infinity", "text": "NaN", "yes": True}
    }


@pytest.mark.parametrize("odd", ODD, ids=shortly)
def test_what_is_sent_is_what_the_rank_writes_and_nothing_is_warned_of(odd: Any) -> None:
    sent: list[list[bytes]] = []
    written: list[bytes] = []
    signer = Signer(key=b"secret")
    emitter = Emitter(signer, SimpleNamespace(send_multipart=sent.append))
    files: Any = SimpleNamespace(begin=lambda _: None, write_event=written.append)
    journal = Journal(1, emitter, files)
    journal.begin("r", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        journal(sample(1, loss=odd, metrics={"caf\ud800": odd}))
    _, frames = signer.feed_identities(sent[0])
    assert written == [frames[4] + b"\n"]
    strictly(frames[4])
    content = signer.deserialize(frames)["content"]
    assert decode(content, Event).metrics.keys() == {"caf\ud800"}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("odd", [NAN, INF, -INF, -5.0, 1e308, 10**400], ids=shortly)
def test_every_view_shows_a_run_with_odd_figures(odd: float, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    events = run_with(odd, name)
    outputs: list[dict[str, Any]] = []
    publisher: Any = SimpleNamespace(publish=lambda data, *_: outputs.append(data))
    publisher.update = publisher.publish
    live = Dashboard(publisher)
    screen = io.StringIO()
    table = MetricsTable(TerminalView(range(2), screen, screen), screen)
    summary, stragglers, figures = Summary(), Stragglers(), Figures(lambda _: INF if odd == 10**400 else odd)
    for at, event in enumerate(events):
        for view in (live, table):
            view.handle(event)
            view.tick(at / 2)
        figures.handle(event)
        ET.fromstring(picture(figures))
        metrics_table(figures)
        if isinstance(event, MetricsSample):
            summary.handle(event)
            stragglers.handle(event)
            strictly(to_json(event))
    live.flush()
    table.flush()
    show_finished(events, publisher)
    strictly(json.dumps(json_value(summary.fields()), allow_nan=False))
    ended = read_packed(live.history())
    assert [event for event in ended["events"] if event["type"] == "run_finished"]
    assert "samples/s" in screen.getvalue()
    svg = next(data["image/svg+xml"] for data in outputs if "image/svg+xml" in data)
    for shape in ET.fromstring(svg).iter():
        assert not {"nan", "inf", "-inf"} & {shape.get(key) for key in ("x", "y", "width", "height")}


@pytest.mark.parametrize("ranks", [2, 40])
@pytest.mark.parametrize(("odd", "word"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf")])
def test_a_loss_and_a_rate_that_are_none_are_shown_as_such(odd: float, word: str, ranks: int) -> None:
    figures = Figures()
    figures.handle(RunStarted("r", tuple(range(ranks)), ranks, 0.0))
    for rank in range(ranks):
        figures.handle(sample(rank, loss=odd, samples_per_s=odd))
    figures.handle(RunFinished("r", "finished", 2.0))
    *_, total, _ = metrics_table(figures).splitlines()
    assert total.split().count(word) == 2
    assert f">{word}</text>" in picture(figures)


def test_the_record_of_a_run_is_strict_json_and_read_back() -> None:
    folder = RunFolder("default")
    summary = Summary()
    summary.handle(sample(0, loss=NAN, samples_per_s=INF))
    folder.write("1", ranks=[0], world_size=1, devices={"0": "CPU"}, threads=1)
    folder.update(outcome="finished", seconds=INF, **summary.fields())
    strictly((folder.path / "run.json").read_text())
    record = read_record(folder.path)
    np.testing.assert_equal((record.loss, record.samples_per_s, record.seconds), (NAN, INF, None))
    assert run_line(record).endswith("inf samples/s; loss nan; m")
    assert runs_table([record]).splitlines()[1].split()[-2:] == ["inf", "nan"]
    assert duration(INF) == "inf"
    # A share of infinity says nothing.
    assert single_rank_samples_per_s("m", "CPU, 1 threads") is None


@pytest.mark.parametrize("odd", [NAN, INF, -INF])
def test_the_server_reads_a_run_with_odd_figures_on(odd: float) -> None:
    folder = make_run(outcome="finished")
    lines = [as_line(event) for name in FIGURES for event in run_with(odd, name)[:-1]]
    # A file of before, a number that no parser takes, and a kind of figure that is none.
    lines[3:3] = [
        lines[2].replace(b'"loss": 0.5', b'"loss": NaN'),
        b'{"type": "metrics", "loss": ' + b"9" * 5000 + b"}\n",
    ]
    (folder / "events.jsonl").write_bytes(b"".join(lines) + as_line(RunFinished("r", "finished", odd)))
    tail = Tail(folder)
    while tail.read_on():
        pass
    _, content = tail.batch(0)
    message = read(json.dumps(strictly(content)).encode())
    assert message["events"][-1]["seconds"] == json_value(odd)
    assert [row[0] for row in message["means"]["rows"]] == [0, 1]


def test_what_is_no_text_goes_to_the_front_end_as_text() -> None:
    sent: list[Any] = []
    pub = SimpleNamespace(publish=lambda data, metadata, **_: sent.append((data, metadata)))
    shell: Any = SimpleNamespace(get_parent=dict, display_pub=pub)
    bundle = {"text/plain": "é\ud800\udce9 \U0001f600", "application/json": [{"caf\udce9": ("x", 1)}]}
    JupyterPublisher(shell).publish(bundle, {}, "id")
    assert sent == [({"text/plain": "é?? \U0001f600", "application/json": [{"caf?": ["x", 1]}]}, {})]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Signer(key=b"secret").pack(sent[0][0])


class Tensor:
    """A number as TensorFlow has it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> Any:
        return np.asarray(self.value, "float32")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (NAN, NAN),
        (10**400, INF),
        (-(10**400), -INF),
        (-3, -3.0),
        (True, 1.0),
        (np.float32("inf"), INF),
        (np.int64(7), 7.0),
        (np.array(2.5), 2.5),
        (np.array([[2.5]]), 2.5),
        (Tensor(NAN), NAN),
        (Tensor([0.25]), 0.25),
        ("0.5", 0.5),
        (Fraction(1, 4), 0.25),
    ],
    ids=shortly,
)
def test_what_a_loop_reports_is_taken_as_the_number_that_it_is(value: Any, number: float) -> None:
    state = RankState()
    with rank_state.replaced(state):
        report(1, loss=0.0)
        report(value, loss=value, auc=value)
    reading = state.meter.read()
    assert reading is not None
    np.testing.assert_equal((reading.loss, reading.metrics["auc"]), (number, number))
    assert reading.samples_per_s is not None
    assert np.isnan(reading.samples_per_s) == np.isnan(number)
    strictly(as_line(MetricsSample("r", 0, 1.0, 1.0, 1, loss=reading.loss, samples_per_s=reading.samples_per_s)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"samples": "many"}, r"What is reported must be a number\. Received: samples='many'\. Pass one value"),
        ({"samples": 1, "loss": np.zeros(2)}, r"Received: loss=array\(\[0\., 0\.\]\)\. Pass one value, e\.g\. float"),
        ({"samples": 1, "loss": 1j}, r"Received: loss=1j\."),
        ({"samples": 1, "auc": [0.5]}, r"Received: auc=\[0\.5\]\."),
        ({"samples": 1, "auc": "x" * 999}, r"Received: auc='x+…\."),
    ],
)
def test_what_is_no_number_is_refused_where_it_is_reported(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        report(**arguments)
