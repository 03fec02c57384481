"""Names, notes and tags of runs: what is kept, listed, chosen and refused."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell
from run_folders import make_run

from jupyter_ddl.cli import main
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.magics.ddl import DdlMagics
from jupyter_ddl.protocol.parameters import checked, readable
from jupyter_ddl.runs import labels
from jupyter_ddl.runs.prune import reason_to_stay
from jupyter_ddl.runs.store import find, read_record, resolve

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "2026-11-20T18-03-07-default-3f9c", "2026-11-20T18-03-08-default-0001"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def folder() -> Path:
    return make_run(FIRST, outcome="finished", notebook="/home/me/train.ipynb", cell_number=7, start_s=1.0)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 1
    return capsys.readouterr().err


def test_a_run_is_labelled_and_shown_and_unlabelled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f'{FIRST} "small batch": ' in printed(capsys, "runs", "--rename", "3f9c", "small batch")
    printed(capsys, "runs", "--note", "small batch", "diverged at the end")
    assert printed(capsys, "runs", "--add-tag", "3f9c", "paper, mnist").endswith("(paper, mnist)\n")
    printed(capsys, "runs", "--add-tag", "3f9c", "paper")
    record = read_record(folder)
    assert (record.name, record.note, record.tags) == ("small batch", "diverged at the end", ("paper", "mnist"))
    assert record == resolve("small batch")
    assert reason_to_stay(record) is None
    assert list(folder.glob(".*")) == []
    assert (folder / labels.FILE).stat().st_mode & 0o777 == 0o600

    table = printed(capsys, "runs").splitlines()
    assert table[0].split()[-3:] == ["name", "cell", "tags"]
    assert table[1].endswith("small batch  train.ipynb [7]  paper, mnist")
    shown = printed(capsys, "show", "small batch")
    assert "\nnotebook: train.ipynb [7]\nnote: diverged at the end\n" in shown

    printed(capsys, "runs", "--rename", "3f9c", "")
    printed(capsys, "runs", "--note", "3f9c", "")
    printed(capsys, "runs", "--remove-tag", "3f9c", "paper,mnist,other")
    record = read_record(folder)
    assert (record.name, record.note, record.tags) == (None, None, ())


def test_the_magic_labels_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DdlMagics(InteractiveShell()).ddl("runs --rename 3f9c 'small batch'")
    assert "small batch" in capsys.readouterr().out
    assert read_record(folder).name == "small batch"


@pytest.mark.usefixtures("folder")
def test_runs_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    second = make_run(SECOND, outcome="timed out", notebook="/home/me/Other.ipynb", start_s=2.0)
    labels.tag(second, ["paper", "b"])
    labels.tag(second.with_name(FIRST), ["paper"])

    def listed(*options: str) -> list[str]:
        return [line.split()[0] for line in printed(capsys, "runs", *options).splitlines()[1:]]

    assert listed("--tag", "paper") == [SECOND, FIRST]
    assert listed("--tag", "paper", "--tag", "b") == [SECOND]
    assert listed("--notebook", "other") == [SECOND]
    assert listed("--state", "Finished") == [FIRST]
    assert printed(capsys, "runs", "--tag", "pap") == "No such runs.\n"


@pytest.mark.usefixtures("folder")
def test_labels_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "A run's name is one line of at most 100 printable characters. Received: 'a\\nb'. Pass a" in refused(
        capsys, "runs", "--rename", FIRST, "a\nb"
    )
    assert "A run's name is one line" in refused(capsys, "runs", "--rename", FIRST, "x" * 101)
    assert "A run's note is a text of at most 2,000 printable characters. Received: 2,001: 'xxx" in refused(
        capsys, "runs", "--note", FIRST, "x" * 2_001
    )
    assert "A tag is a word of at most 40 printable characters, without a comma. Received: 'two words'." in refused(
        capsys, "runs", "--add-tag", FIRST, "two words"
    )
    many = ",".join(map(str, range(21)))
    assert "A run has at most 20 tags. Received: 21." in refused(capsys, "runs", "--add-tag", FIRST, many)
    assert "One label is changed at a time. Received: --rename --note." in refused(
        capsys, "runs", "--rename", FIRST, "a", "--note", FIRST, "b"
    )
    assert "Received: --rename --tag." in refused(capsys, "runs", "--rename", FIRST, "a", "--tag", "b")
    assert "Runs are pruned by their age and number, not by what they have. Received: --prune with" in refused(
        capsys, "runs", "--prune", "--keep", "1", "--tag", "b"
    )
    assert "which is no run" in refused(capsys, "runs", "--rename", "nothing", "a")


def test_two_runs_of_one_name_are_not_mixed_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels.rename(folder, "same")
    labels.rename(make_run(SECOND, outcome="finished"), "same")
    assert f"'same', which may be {SECOND}, {FIRST}. Write more" in refused(capsys, "runs", "--rename", "same", "a")


def test_a_folder_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A folder in the file's place: not even root replaces it by a file.
    (folder / labels.FILE).mkdir()
    assert "A run's folder must be writable for its labels. Received: " in refused(
        capsys, "runs", "--rename", FIRST, "a"
    )


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"name": 3, "note": ["x"], "tags": "paper", "parameters": []}', '{"name": "a\\u001b[2J", "tags": [1]}'],
)
def test_broken_labels_are_none(folder: Path, content: str) -> None:
    (folder / labels.FILE).write_text(content)
    assert labels.read_labels(folder) == labels.Labels()


def test_a_fifo_in_the_place_of_labels_is_none(folder: Path) -> None:
    os.mkfifo(folder / labels.FILE)
    assert labels.read_labels(folder) == labels.Labels()


def test_parameters_of_the_user_come_over_those_of_the_code(folder: Path) -> None:
    content = json.loads((folder / "run.json").read_text())
    content["parameters"] = {"epochs": 3, "lr": 0.1, "broken": [1]}
    (folder / "run.json").write_text(json.dumps(content))
    labels.add_parameters(folder, {"lr": 0.2, "data": "mnist"})
    record = find(FIRST)
    assert record is not None
    assert record.parameters == {"epochs": 3, "lr": 0.2, "data": "mnist"}
    with pytest.raises(InvalidInput, match=r"A run has at most 200 parameters\. Received: 201\."):
        labels.add_parameters(folder, {str(number): number for number in range(199)})


class OneValue:
    def item(self) -> float:
        return 0.5


class Several:
    def item(self) -> float:
        raise ValueError("more than one")


def test_parameters_are_scalars() -> None:
    given = {"a": 1, "b": 0.5, "c": "x", "d": None, "e": True, "f": OneValue()}
    assert checked(given) == {**given, "f": 0.5}
    for value in ([1], {"a": 1}, 1 << 63, "x" * 1_001, Several(), object()):
        with pytest.raises(InvalidInput, match=r"A parameter is a number, True, .* 1,000 characters\. Received: name="):
            checked({"name": value})
    with pytest.raises(InvalidInput, match=r"A parameter's name is a text of 1 to 100 .* Received: '\\n'\."):
        checked({"\n": 1})
    with pytest.raises(InvalidInput, match=r"A run has at most 200 parameters\. Received: 201\."):
        checked({str(number): number for number in range(201)})


def test_what_is_no_parameter_is_left_out() -> None:
    assert readable({"a": 1, "b": [], "x" * 101: 2, "c": "y" * 1_001}) == {"a": 1}
    assert readable([1]) == {}
    assert len(readable({str(number): number for number in range(500)})) == 200
