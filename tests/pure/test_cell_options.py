"""Each option of a cell or a script, from where it is said to the rank's record: none is lost on the way."""

from __future__ import annotations

import inspect
import json
import math
from argparse import ArgumentParser
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest
from kernel_sides import RANKS, TestCluster, finished

from jupyter_ddl import paths
from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.commands.arguments import add_cell_arguments, add_script_arguments, cell_options
from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.session import Session
from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions, Options, StallOptions
from jupyter_ddl.protocol.codec import as_json, decode
from jupyter_ddl.protocol.memory_options import MemoryOptions
from jupyter_ddl.protocol.requests import RunCell
from jupyter_ddl.rank.script_main import request_in_environment
from jupyter_ddl.script.job import Job
from jupyter_ddl.script.launching import Surroundings, rank_environment

if TYPE_CHECKING:
    from jupyter_ddl.protocol.requests import Request

# Each option: a value that is not its default, and how a command line says so.
EXAMPLES: dict[str, tuple[Any, str]] = {
    "timeout_s": (30.0, "--timeout 30"),
    "independent": (True, "--independent"),
    "auto": (AutoOptions("global", "none", 1.5), "--auto --batch global --scale-lr none --warmup-epochs 1.5"),
    "sample_every_s": (0.25, "--sample-every 0.25"),
    "stalls": (StallOptions(7.0, "abort"), "--stall-after 7 --on-stall abort"),
    "checkpoint": ("/saved", "--checkpoint /saved"),
    "on_drift": ("warn", "--on-drift warn"),
    "memory": (MemoryOptions(4, remat=True), "--memory accumulate=4,remat"),
    "timeline": (True, "--timeline"),
    # These two the magic reads off the notebook.
    "above": (3, ""),
    "count": (12, ""),
}
OF_A_CELL = [name for name, (_, words) in EXAMPLES.items() if words]
OF_A_SCRIPT = ["independent", "auto", "checkpoint", "on_drift", "memory", "timeline"]


class TestSession(Session):
    """A session whose ranks a test speaks for: they finish what they are sent."""

    __test__ = False

    def __init__(self) -> None:
        cluster: Any = TestCluster(self._answer)
        cluster.warm = {}
        super().__init__(cluster.spec, Observers(), rebuild=False)
        self.attach(cluster)

    def _answer(self, request: Request, ranks: Any) -> None:
        if isinstance(request, RunCell):
            for rank in ranks:
                self._cluster.say(finished(SimpleNamespace(id=request.run), rank))  # type: ignore[attr-defined,arg-type]

    @property
    def cells(self) -> list[RunCell]:
        return [request for request in self._cluster.sent if isinstance(request, RunCell)]  # type: ignore[attr-defined]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestSession:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    return TestSession()


def seen_on_rank(session: TestSession) -> CellOptions:
    """Return the options that code on a rank sees of the cell that was sent last."""
    request = decode(as_json(session.cells[-1]), RunCell)
    state = RankState()
    with rank_state.replaced(state):
        state.cells.begin(Cell(len(request.ranks), request.options))
        return run_context.options()


def parsed(add: Any, words: str) -> Any:
    parser = ArgumentParser()
    add(parser)
    return parser.parse_args(words.split())


def test_each_option_has_an_example_that_is_not_its_default() -> None:
    assert list(EXAMPLES) == [field.name for field in fields(CellOptions)]
    for name, (value, _) in EXAMPLES.items():
        assert value != getattr(CellOptions(), name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_option_of_a_cell_reaches_the_rank(session: TestSession, name: str) -> None:
    options = CellOptions(**{name: EXAMPLES[name][0]})
    session.submit("1", None, options).wait()
    # By what they hold: where the code stands makes no options differ.
    assert asdict(seen_on_rank(session)) == asdict(options)


@pytest.mark.parametrize("name", OF_A_CELL)
def test_an_option_is_a_keyword_and_an_argument(session: TestSession, name: str) -> None:
    value, words = EXAMPLES[name]
    session.run("1", **{name: value})  # type: ignore[misc]
    assert seen_on_rank(session) == CellOptions(**{name: value}) == cell_options(parsed(add_cell_arguments, words))


@pytest.mark.parametrize("name", OF_A_SCRIPT)
def test_an_option_of_a_script_reaches_the_rank(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, words = EXAMPLES[name]
    spec = plan(2, gpus="none")
    options = cell_options(parsed(add_script_arguments, words)).checked(RANKS, spec.n)
    request = Job(spec, ["train.py"], options, Surroundings())._request(tmp_path)
    settings = rank_environment(spec, request)[paths.SCRIPT_VARIABLE]
    monkeypatch.setenv(paths.SCRIPT_VARIABLE, settings)
    request = request_in_environment()
    assert (request.folder, request.n, request.devices, request.threads) == (str(tmp_path), 2, (), spec.threads)
    assert asdict(request.options) == {**asdict(CellOptions()), name: asdict(value) if is_dataclass(value) else value}


def test_the_example_in_contributing_is_in_the_code() -> None:
    root = Path(__file__).parents[2]
    section = (root / "CONTRIBUTING.md").read_text().partition("## Adding an option\n")[2].partition("\n## ")[0]
    blocks = [block.partition("```")[0] for block in section.split("```diff\n")[1:]]
    assert len(blocks) == 3  # the fourth place is the docs
    for block in blocks:
        heading, *added = [line.strip() for line in block.strip().splitlines()]
        code = (root / heading.removeprefix("+++ ")).read_text().splitlines()
        assert [line for line in added if line[1:] not in code] == []


def test_what_is_no_settings_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paths.SCRIPT_VARIABLE, raising=False)
    with pytest.raises(SystemExit, match=r"one rank of a script\. Received: no settings\. Start it with: jupyter ddl"):
        request_in_environment()


def test_the_keywords_are_the_record_but_for_where_the_code_stands() -> None:
    record, keywords = get_type_hints(CellOptions), get_type_hints(Options)
    assert list(keywords) == OF_A_CELL
    assert {name: record[name] for name in keywords} == keywords


def test_help_names_the_keywords() -> None:
    signature = inspect.signature(Session.run)
    assert list(signature.parameters) == ["self", "code", "ranks", "view", "setup", *OF_A_CELL]
    assert signature.parameters["on_drift"].default == "stop"


def test_a_keyword_that_is_no_option_is_an_error(session: TestSession) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'timeout'"):
        session.run("1", timeout=1)  # type: ignore[call-arg]
    assert not session.cells


def test_runs_keep_the_options_that_change_what_a_cell_does() -> None:
    assert CellOptions().record() == {
        "timeout_s": None,
        "independent": False,
        "auto": None,
        "stalls": {"after_s": 10.0, "action": "report"},
        "checkpoint": None,
        "on_drift": "stop",
        "memory": None,
        "timeline": False,
        "above": 0,
    }


def test_options_that_a_newer_kernel_has_are_left_out() -> None:
    sent = json.loads(as_json(RunCell("run-1", "1", RANKS, False, None, CellOptions(auto=AutoOptions()))))
    sent["options"]["new"] = sent["options"]["auto"]["newer"] = 1
    assert decode(sent, RunCell).options == CellOptions(auto=AutoOptions())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"auto": AutoOptions(), "independent": True},
            (
                "--auto trains one model on all ranks. Received: --auto --independent. Drop --auto for a model of its "
                "own on each rank."
            ),
        ),
        (
            {"sample_every_s": -1.0},
            (
                "The interval between samples must not be negative. Received: --sample-every -1. "
                "Pass a number above 0, or 0 for none."
            ),
        ),
        (
            {"timeout_s": 0.0},
            "A timeout must be more than 0 seconds. Received: --timeout 0. Leave it out for none.",
        ),
        (
            {"sample_every_s": math.inf},
            (
                "--sample-every takes at most 1,000,000,000 seconds. Received: --sample-every inf. Pass less, or 0 for "
                "none."
            ),
        ),
        (
            {"timeout_s": 1e300},
            "--timeout takes at most 1,000,000,000 seconds. Received: --timeout 1e+300. Leave it out for none.",
        ),
        ({"checkpoint": ""}, "--checkpoint takes a folder. Received: ''. Name one: --checkpoint runs/mnist"),
        ({"on_drift": "go"}, "On drift fit can stop or warn. Received: go. Pass stop, which is the default, or warn."),
        (
            {"checkpoint": "a", "independent": True},
            (
                "--checkpoint saves the one model that all ranks train. Received: --checkpoint --independent. Drop one "
                "of the two; keras.callbacks.ModelCheckpoint saves a rank's own."
            ),
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_sent(
    session: TestSession, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        session.run("1", **options)
    assert str(error.value) == told
    assert not session.cells


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"auto": AutoOptions()},
            (
                "--auto distributes over all ranks. Received: ranks 0 of 2. Drop -r, or start a cluster of that many "
                "ranks."
            ),
        ),
        (
            {"checkpoint": "a"},
            "--checkpoint saves the one model that all ranks train. Received: ranks 0 of 2. Drop -r, or --checkpoint.",
        ),
    ],
)
def test_what_needs_all_ranks_is_told(session: TestSession, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput) as error:
        session.run("1", [0], **options)
    assert str(error.value) == told
    assert not session.cells


def test_auto_takes_its_options_and_no_word() -> None:
    with pytest.raises(InvalidInput, match=r"Received: 'strong'\. Pass cell_options\.AutoOptions\(\), or None\."):
        CellOptions(auto="strong")  # type: ignore[arg-type]
