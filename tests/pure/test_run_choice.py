"""Which runs are chosen by what they have, how many, and what a browser may ask of one: its labels and its place."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from typing import TYPE_CHECKING

import pytest
from run_folders import make_run

from jupyter_ddl import paths
from jupyter_ddl.doctor import Check
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs import labels
from jupyter_ddl.runs.choice import Choice, counted
from jupyter_ddl.runs.store import find, newest_first
from jupyter_ddl.server.reports import report
from jupyter_ddl.server.run_lists import listing, values
from jupyter_ddl.server.runs import change_labels, place_of
from jupyter_ddl.support.environment import LEFT_OUT

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND, THIRD = (f"2026-11-20T18-03-0{second}-default-000{second}" for second in (1, 2, 3))


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs: of a cell that timed out, of a script that failed, and one of which little is known."""
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    first = make_run(FIRST, outcome="timed out", notebook="/home/me/Train.ipynb", model="Sequential", start_s=1.0)
    labels.rename(first, "Small batch")
    labels.annotate(first, "diverged")
    labels.tag(first, ["paper", "mnist"])
    second = make_run(SECOND, outcome="failed", script="jobs/train.py", start_s=2.0)
    labels.tag(second, ["paper"])
    make_run(THIRD, outcome="finished", start_s=3.0)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (Choice(), [THIRD, SECOND, FIRST]),
        (Choice(state=("Timed",)), [FIRST]),
        (Choice(state=("timed out", "failed")), [SECOND, FIRST]),
        (Choice(state=("imed",)), []),
        (Choice(notebook=("train",)), [SECOND, FIRST]),
        (Choice(notebook=("TRAIN.ipynb",)), [FIRST]),
        (Choice(tag=("paper",)), [SECOND, FIRST]),
        (Choice(tag=("paper", "mnist")), [FIRST]),
        (Choice(tag=("pap",)), []),
        (Choice(name=("batch",)), [FIRST]),
        (Choice(model=("sequ",)), [FIRST]),
        (Choice(text="DIVERGED"), [FIRST]),
        (Choice(text="train.py"), [SECOND]),
        (Choice(tag=("paper",), state=("failed",)), [SECOND]),
        (Choice(tag=("paper",), state=("failed",), text="mnist"), []),
    ],
)
def test_runs_that_have_all_that_is_asked_for(choice: Choice, chosen: list[str]) -> None:
    assert [record["run"] for record in listing(choice, None, 50)["runs"]] == chosen
    assert values(choice)["chosen"] == len(chosen)
    assert choice.is_all == (choice == Choice())


def test_what_may_be_chosen_is_counted_newest_first() -> None:
    assert values(Choice(tag=("mnist",))) == {
        "total": 3,
        "read": 3,
        "chosen": 1,
        "values": {
            "state": [["finished", 1], ["failed", 1], ["timed out", 1]],
            "notebook": [["train.py", 1], ["Train.ipynb", 1]],
            "tag": [["paper", 2], ["mnist", 1]],
            "name": [["Small batch", 1]],
            "model": [["Sequential", 1]],
        },
    }
    assert counted(newest_first(), Choice(), 2)["read"] == 2


def test_labels_change_as_a_browser_asks(runs: Path) -> None:
    change_labels(runs / FIRST, {"name": "", "note": "two\nlines", "remove_tags": ["paper"], "add_tags": ["best"]})
    kept = labels.read_labels(runs / FIRST)
    assert (kept.name, kept.note, kept.tags) == (None, "two\nlines", ("mnist", "best"))
    # Tags that are taken off leave room for those that are added.
    change_labels(runs / FIRST, {"add_tags": [f"t{at}" for at in range(18)]})
    change_labels(runs / FIRST, {"add_tags": ["one-more"], "remove_tags": ["best"]})
    assert "one-more" in labels.read_labels(runs / FIRST).tags


@pytest.mark.parametrize("asked", [{"name": 3}, {"add_tags": "best"}, {"add_tags": [3]}, {"note": None}])
def test_labels_of_another_kind_are_refused(runs: Path, asked: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=r"A run's name and note are texts, and tags are lists of texts\."):
        change_labels(runs / FIRST, asked)
    assert labels.read_labels(runs / FIRST).name == "Small batch"


def test_a_notebook_is_found_below_the_servers_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "a.ipynb").write_text("{}")
    (tmp_path / "link").symlink_to(root)
    here = {"path": "deep/a.ipynb", "problem": None}
    assert place_of(str(root / "deep" / "a.ipynb"), str(root)) == here
    assert place_of("deep/a.ipynb", str(root)) == here
    assert place_of(str(root / "deep" / "a.ipynb"), str(tmp_path / "link")) == here
    assert place_of(str(root / "b.ipynb"), str(root)) == {"path": "b.ipynb", "problem": "gone"}
    outside = {"path": None, "problem": "outside"}
    assert place_of(str(root / ".." / "a.ipynb"), str(root)) == outside
    assert place_of("../root2/a.ipynb", str(root)) == outside
    assert place_of("a.ipynb", None) == outside
    assert place_of(None, str(root)) == {"path": None, "problem": "none"}


def test_a_report_is_what_it_says_without_secrets(runs: Path) -> None:
    parameters = {
        "epochs": 3,
        "hub_token": "hidden-1",
        "api_key": "hidden-2",
        "password": "hidden-3",
        "key": "hidden-4",
    }
    told = parameters | {"data": "https://me:hidden-5@host/mnist"}
    run = "2026-11-20T18-03-04-default-0004"
    folder = make_run(run, outcome="finished", parameters=told, first_line="x = 1")
    (folder / "cell.py").write_text("x = 1\n")
    record = find(run)
    assert record is not None
    made = report(record, [Check("MPI", "ok", "Open MPI 5.0.8")], with_code=False)
    data = base64.b64decode(made["zip"])
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        found = {name: file.read(name) for name in file.namelist()}
    assert [(part["name"], part["bytes"]) for part in made["parts"]] == [
        (name, len(text)) for name, text in found.items()
    ]
    assert made["file"] == f"ddl-report-{run}.zip"
    assert not any(b"hidden-" in text or b"x = 1" in text for text in found.values())
    assert json.loads(found["run/run.json"])["parameters"]["epochs"] == 3
    assert json.loads(found["run/run.json"])["parameters"]["hub_token"] == LEFT_OUT
    assert b"Open MPI 5.0.8" in found["machine/doctor.txt"]
    names = [part["name"] for part in report(record, [], with_code=True)["parts"]]
    assert "run/cell.py" in names
