"""What an export reads of a notebook, and what it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest
from exported_notebooks import PARAMETERS, START, notebook_of

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export.notebook import job_copy, parameter_names, read_notebook
from jupyter_ddl.export.parameters import points_of, value_of
from jupyter_ddl.export.submit_lines import jobs_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_submit_with_variables_or_none_of_its_options_says_nothing() -> None:
    sources = (
        "%ddl submit -N $n",
        "%ddl submit --none",
        "%ddl submit 'x",
        "%ddl submit --print -N 7",
        "import jupyter_ddl\njupyter_ddl.submit(n)\njupyter_ddl.submit(nodes='2')\njupyter_ddl.submit(2, ranks=3)",
        "%%distributed\njupyter_ddl.submit(9)",
    )
    assert jobs_of(notebook_of(*sources)) == []
    twice = notebook_of("%ddl submit -N 2", "%ddl submit -N 2", "jupyter_ddl.submit(2, name='x')")
    assert [asked.given for asked in jobs_of(twice)] == [{"nodes": 2}]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("1",), [PARAMETERS, "1"]),
        ((START, "1"), [PARAMETERS, START, "%ddl auto on", "1"]),
    ],
    ids=["nothing starts ranks", "a cell starts them"],
)
def test_a_notebook_that_runs_on_ranks_as_a_whole_says_so_in_its_job(
    cells: tuple[str, ...], expected: list[str]
) -> None:
    notebook = notebook_of(*cells)
    notebook.metadata["jupyter_ddl"] = {"auto": True}
    if START not in cells:
        expected = ["%load_ext jupyter_ddl\n%ddl start", "%ddl auto on", *expected]
    assert [cell.source for cell in job_copy(notebook).cells] == expected
    assert "%ddl auto on" not in [cell.source for cell in job_copy(notebook_of(START, "%%distributed\n1")).cells]


@pytest.mark.parametrize("kept", [{"auto": True}, {"auto": False}, "on", None], ids=repr)
def test_such_a_notebook_may_be_exported(kept: object, tmp_path: Path) -> None:
    notebook = notebook_of("1")
    notebook.metadata["jupyter_ddl"] = kept
    nbformat.write(notebook, tmp_path / "whole.ipynb")
    if kept == {"auto": True}:
        assert len(read_notebook(tmp_path / "whole.ipynb").cells) == 2
    else:
        with pytest.raises(InvalidInput, match="or run on ranks as a whole"):
            read_notebook(tmp_path / "whole.ipynb")


def test_a_notebook_whose_ranks_the_panel_started_starts_them_itself() -> None:
    copy = job_copy(notebook_of("1", "%%distributed\n1", "%%distributed\n2"))
    assert [cell.source for cell in copy.cells][1:] == [
        "1",
        "%load_ext jupyter_ddl\n%ddl start",
        "%%distributed\n1",
        "%%distributed\n2",
    ]
    assert len(job_copy(notebook_of("jupyter_ddl.start()", "%%distributed\n1")).cells) == 3


def test_parameters_are_read_and_written_as_papermills() -> None:
    assert parameter_names(notebook_of()) == {"rate", "epochs", "n"}
    assert parameter_names(nbformat.v4.new_notebook()) == set()
    assert [value_of(text) for text in ("1", "1e-3", "True", "None", "adam", "[1, 2]", "1.2.3")] == [
        *(1, 1e-3, True, None, "adam", [1, 2], "1.2.3")
    ]
    numbers = ",".join(map(str, range(101)))
    with pytest.raises(InvalidInput, match=r"at most 10,000 points\. Received: 10,201"):
        points_of([], [f"a={numbers}", f"b={numbers}"], {"a", "b"})
