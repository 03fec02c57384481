from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_ddl
from jupyter_ddl import errors, paths
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.events import RankFailed

FAILURE = RankFailed("run-1", 1, "node-a", "ValueError", "no good", ("its traceback",), released=False, at_s=1.0)


def test_an_error_says_rule_received_and_remedy() -> None:
    error = errors.InvalidInput("Engines must not outnumber GPUs.", "n=8, GPUs=4", "Pass n<=4, or --oversubscribe.")
    assert str(error) == "Engines must not outnumber GPUs. Received: n=8, GPUs=4. Pass n<=4, or --oversubscribe."
    assert isinstance(error, ValueError)


def test_a_notebook_shows_an_error_without_a_traceback_of_ours() -> None:
    assert errors.NoCluster("no ranks")._render_traceback_() == ["NoCluster: no ranks"]


def test_a_ranks_error_is_headed_and_shown_with_its_own_traceback() -> None:
    error = errors.RankError([FAILURE], [0], 2)
    assert str(error) == "Rank 1 of 2 on node-a: ValueError: no good"
    assert error._render_traceback_() == ["RankError: Rank 1 of 2 on node-a: ValueError: no good"]
    error.report = "what the rank said"
    assert error._render_traceback_() == ["what the rank said"]


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidInput("Engines must not outnumber GPUs.", "n=8", "Pass n<=4."),
        errors.FolderNotWritable(Path("/runs"), "JUPYTER_DDL_RUNS", "read-only"),
        errors.RankError([FAILURE], [0], 2),
        errors.RanksOutOfSync("Ranks differ.", [1], "dense/kernel"),
        errors.RunTimedOut("60 s passed"),
        errors.BuildError("A compiler is needed.", "none", "Install g++.", Path("/logs/build.log")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_goes_whole_to_another_process(error: errors.DdlError) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert vars(there) == vars(error)


def test_a_build_error_names_the_log() -> None:
    error = errors.BuildError("A compiler is needed.", "none", "Install g++.", Path("/logs/build.log"))
    assert str(error) == "A compiler is needed. Received: none. Install g++. Full log: /logs/build.log"


def test_an_interrupted_run_is_a_keyboard_interrupt() -> None:
    assert issubclass(errors.RunInterrupted, KeyboardInterrupt)


def test_a_folder_that_cannot_be_made_names_its_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.FolderNotWritable) as caught:
        private_folder(tmp_path / "file" / "runs", variable=paths.RUNS_VARIABLE)
    assert str(caught.value) == (
        f"jupyter_ddl must be able to write to its folder. Received: {tmp_path}/file/runs (Not a directory). "
        "Set JUPYTER_DDL_RUNS to a folder that you may write to."
    )


def test_folders_go_where_their_variables_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in (paths.CACHE_VARIABLE, paths.RUNTIME_VARIABLE, paths.RUNS_VARIABLE, paths.HOROVOD_VARIABLE):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    assert paths.cache_dir() == tmp_path / paths.CACHE_VARIABLE
    assert paths.clusters_dir() == tmp_path / paths.RUNTIME_VARIABLE / "clusters"
    assert paths.runs_dir() == tmp_path / paths.RUNS_VARIABLE
    assert paths.horovod_dir() == tmp_path / paths.HOROVOD_VARIABLE
    monkeypatch.delenv(paths.HOROVOD_VARIABLE)
    assert paths.horovod_dir() is None


def test_a_private_folder_is_its_owners_alone(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "a" / "b", variable=paths.RUNS_VARIABLE).stat().st_mode & 0o777 == 0o700


def own_errors() -> dict[str, type[BaseException]]:
    return {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == errors.__name__
    }


def tree_below(kind: type[BaseException], order: list[str], indent: str = "") -> list[str]:
    """Return the lines that draw the errors below one, those of one parent in the drawing's own order."""
    below = [error for error in own_errors().values() if error.__bases__[0] is kind]
    below.sort(key=lambda error: order.index(error.__name__) if error.__name__ in order else len(order))
    lines = []
    for error in below:
        branch, deeper = ("└── ", "    ") if error is below[-1] else ("├── ", "│   ")
        others = ", ".join(base.__name__ for base in error.__bases__[1:])
        lines.append(indent + branch + error.__name__ + (f" ({others})" if others else ""))
        lines += tree_below(error, order, indent + deeper)
    return lines


def test_the_drawing_is_that_of_the_classes() -> None:
    assert errors.__doc__ is not None
    # Without what stands beside each name.
    drawn = [re.sub(r"(?<=[\w)])  .*", "", line[4:]) for line in errors.__doc__.splitlines() if line.startswith("    ")]
    order = re.findall(r"[A-Z]\w+", "\n".join(drawn))
    assert drawn == ["DdlError", *tree_below(errors.DdlError, order), "RankTraceback (Exception)"]
    assert errors.DdlError.__bases__ == errors.RankTraceback.__bases__ == (Exception,)
    assert {name for name in order if name in own_errors()} == set(own_errors())


def test_every_public_error_of_the_package_is_in_the_tree() -> None:
    elsewhere = []
    for file in Path(jupyter_ddl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and file.name != "errors.py":
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                if bases & {*own_errors(), "Exception", "RuntimeError", "ValueError", "OSError"}:
                    elsewhere.append(node.name)
    assert elsewhere == []


PLAIN_SCRIPT = """
from jupyter_ddl.errors import RankError, RankTraceback
from jupyter_ddl.protocol.events import RankFailed
from jupyter_ddl.views.failure import render_failure

lines = ("\\x1b[31mTraceback\\x1b[39m", '  File "cell.py", line 3, in step', "ValueError: no good")
failure = RankFailed("run-1", 1, "node-a", "ValueError", "no good", lines, released=False, at_s=1.0)
error = RankError([failure], [0], 2)
error.report = render_failure(error)
raise error from RankTraceback(error.report)
"""


def test_a_plain_python_script_prints_the_ranks_traceback_above_the_error() -> None:
    child = subprocess.run([sys.executable, "-c", PLAIN_SCRIPT], capture_output=True, text=True, timeout=60)
    assert child.returncode == 1
    assert (
        "jupyter_ddl.errors.RankTraceback: \n"
        '"""\n'
        "Rank 1 of 2 on node-a\n"
        "Traceback\n"
        '  File "cell.py", line 3, in step\n'
        "ValueError: no good\n\n"
        "Rank 0 aborted because rank 1 raised\n"
        '"""\n\n'
        "The above exception was the direct cause of the following exception:\n"
    ) in child.stderr
    assert child.stderr.endswith("jupyter_ddl.errors.RankError: Rank 1 of 2 on node-a: ValueError: no good\n")
