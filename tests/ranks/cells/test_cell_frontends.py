"""The same cells in every place that runs notebooks, in a terminal and in a script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from processes import described
from ranks.kernels import without

pytestmark = pytest.mark.mpi

CELLS = [
    "%load_ext jupyter_ddl",
    "%ddl start -n 2 --name frontend",
    "%%distributed\nprint('same')\nrank * 10",
    "%ddl stop",
]


@pytest.fixture(autouse=True)
def no_tensorflow(tmp_path_factory, monkeypatch):
    """Spare the ranks the import: no cell here needs it."""
    (path,) = without(tmp_path_factory.mktemp("without"), "tensorflow").values()
    monkeypatch.setenv("PYTHONPATH", f"{path}{os.pathsep}{Path(__file__).parents[3]}")


def notebook_of(*cells):
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


def texts(notebook):
    """Return what is saved under the cell that ran on the ranks."""
    cell = notebook.cells[2]
    assert all(set(output) <= {"output_type", "data", "metadata"} for output in cell.outputs)
    assert all(set(output.data) == {"text/plain"} for output in cell.outputs)
    return "\n".join(output.data["text/plain"] for output in cell.outputs).splitlines()


def assert_saved_well(notebook):
    nbformat.validate(notebook)
    assert sorted(texts(notebook)) == ["[0-1] same", "[0]   0", "[1]   10"]
    (start,) = notebook.cells[1].outputs
    lines = start.data["text/plain"].splitlines()
    assert lines[1].split() == ["rank", "host", "pid", "device", "threads"]
    assert [line.split()[0] for line in lines[2:]] == ["0", "1"]


def python(*arguments, **options):
    command = [sys.executable, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            told = described()
            process.kill()
            raise AssertionError("\n".join(["It did not end.", told, *process.communicate()])) from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_nbclient_and_run_all_that_stops_at_an_error():
    notebook = notebook_of(*CELLS[:3], "%%distributed\n1 / rank", "reached = True")
    with pytest.raises(CellExecutionError) as caught:
        NotebookClient(notebook, timeout=60).execute()
    assert caught.value.ename == "RankError"
    assert "ZeroDivisionError: division by zero" in caught.value.evalue
    assert "Rank 0 of 2" in caught.value.traceback
    assert notebook.cells[4].execution_count is None
    assert_saved_well(notebook)


@pytest.mark.slow  # it runs cells by nbclient
def test_nbconvert(tmp_path):
    path = tmp_path / "notebook.ipynb"
    nbformat.write(notebook_of(*CELLS), path)
    done = python("-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_saved_well(nbformat.read(path, as_version=4))


# As the panel saves it, and as a cell says it.
@pytest.mark.parametrize("is_saved", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["metadata", "magic"])
def test_a_whole_notebook_on_ranks_by_nbconvert(tmp_path, is_saved):
    path = tmp_path / "notebook.ipynb"
    here = "%%local\nprint('here', 'rank' in globals())"
    cells = (*CELLS[:2], "\nprint('same')\nrank * 10", here, "\n\nfirst = 1\nfirst / rank")
    notebook = notebook_of(*cells)
    if is_saved:
        notebook.metadata["jupyter_ddl"] = {"auto": True}
    else:
        notebook.cells[1].source += "\n%ddl auto on"
    nbformat.write(notebook, path)
    done = python(
        "-m", "nbconvert", "--to", "notebook", "--execute", "--allow-errors", "--inplace", str(path), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    notebook = nbformat.read(path, as_version=4)
    assert sorted(texts(notebook)) == ["[0-1] same", "[0]   0", "[1]   10"]
    assert notebook.cells[3].outputs[0].text == "here False\n"
    error = next(output for output in notebook.cells[4].outputs if output.output_type == "error")
    # The line as the notebook has it.
    assert "line 4" in re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


@pytest.mark.slow  # so does papermill
def test_papermill(tmp_path):
    path, out = tmp_path / "notebook.ipynb", tmp_path / "out.ipynb"
    nbformat.write(notebook_of(*CELLS), path)
    done = python("-m", "papermill", "--no-progress-bar", str(path), str(out), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notebook = nbformat.read(out, as_version=4)
    assert_saved_well(notebook)


IPYTHON = """\
%load_ext jupyter_ddl
%ddl start -n 2 --name terminal
get_ipython().run_cell_magic("distributed", "", "kept = rank + 5")
%ddl start -n 2 --name terminal
get_ipython().run_cell_magic("distributed", "", "print('kept', kept)")
try:
    get_ipython().run_line_magic("ddl", "start -n 1 --name terminal")
except ValueError as error:
    print("refused:", error)
get_ipython().run_cell_magic("distributed", "", "print('same')\\nrank * 10")
%ddl stop
%ddl stop
%ddl restart --idle-stop 2h --keep-variables
get_ipython().run_cell_magic("distributed", "", "1 / rank")
"""


def test_ipython_in_a_terminal(tmp_path):
    script = tmp_path / "cells.ipy"
    script.write_text(IPYTHON)
    done = python("-m", "IPython", "--colors=nocolor", str(script), env=os.environ | {"IPYTHONDIR": str(tmp_path)})
    lines = done.stdout.splitlines()
    assert "[0-1] same" in lines, done.stdout + done.stderr
    # A start that is run again leaves its ranks as they are, and another one is refused.
    stay = "runs already, by the same line: its ranks stay. %ddl restart replaces them, %ddl stop ends them."
    assert f"terminal {stay}" in lines
    assert {"[0] kept 5", "[1] kept 6"} <= {" ".join(line.split()) for line in lines}
    taken = "A cluster's name is its own. Received: name='terminal', which runs already."
    assert any(line.startswith(f"refused: {taken}") for line in lines)
    assert "[0]   0" in lines
    assert "[1]   10" in lines
    told = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "Rank 0 of 2 on" in told
    assert "ZeroDivisionError: division by zero" in told
    assert "follow.py" not in told
    said = r"The ranks are ended after 2 h 00 min .*: in \d h \d\d min; %ddl restart loads their variables again\."
    assert re.search(said, told)
    assert [line for line in lines if line.startswith("terminal: ")] == [
        "terminal: 2 ranks ended",
        "terminal: no ranks run; %ddl restart starts some",
    ]


SCRIPT = """\
import jupyter_ddl

if __name__ == "__main__":
    with jupyter_ddl.start(n=2, name="script") as session:
        print([rank.value for rank in session.run("rank * 10").ranks.values()])
        try:
            session.run("1 / rank")
        except jupyter_ddl.errors.RankError as error:
            print(error)
"""


def test_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = python(str(script))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "['0', '10']"
    assert lines[1].startswith("Rank 0 of 2 on ")
    assert lines[1].endswith(": ZeroDivisionError: division by zero")
