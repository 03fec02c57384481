"""Exports of notebooks whose own cells name a profile, or submit a job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import nbformat
import pytest
from exported_notebooks import SUBMITS

from jupyter_ddl.export.order import ExportFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


PROFILES = """
[a100]
launcher = "slurm"
modules = ["cuda/12.4"]
options = ["--exclusive"]
container = "/site/ddl.sif"
[a100.defaults]
nodes = 2
ntasks_per_node = 4
partition = "gpu"
time = "2:00"

[plain]
launcher = "slurm"
[plain.defaults]
nodes = 3

[queue]
launcher = "pbs"
"""


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "config" / "jupyter_ddl.d").mkdir(parents=True)
    (tmp_path / "config" / "jupyter_ddl.d" / "mine.toml").write_text(PROFILES)


def script_of(folder: Path) -> list[str]:
    return [
        line.removeprefix("#SBATCH ")
        for line in (folder / "job.sh").read_text().splitlines()
        if line.startswith(("#SBATCH", "module")) and not re.match("#SBATCH --(job-name|output|chdir|open-mode)", line)
    ]


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize(
    ("cell", "options", "script"),
    [
        # All of it is the profile's; the ranks' image is the cell's own affair.
        (
            "%ddl submit --profile a100",
            (),
            ["--nodes=2", "--ntasks-per-node=4", "--time=02:00:00", "--partition=gpu", "--exclusive"],
        ),
        (
            "%ddl submit --profile a100 -N 1 --time 0:30 --option=--qos=low --container /site/other.sif --keep",
            (),
            ["--nodes=1", "--ntasks-per-node=4", "--time=00:30:00", "--partition=gpu", "--exclusive", "--qos=low"],
        ),
        (
            "import jupyter_ddl\njupyter_ddl.submit(1, profile='a100', options=['--qos=low'], progress=print)",
            (),
            ["--nodes=1", "--ntasks-per-node=4", "--time=02:00:00", "--partition=gpu", "--exclusive", "--qos=low"],
        ),
        # What the command line says wins.
        (
            "%ddl submit --profile a100 --time 0:30",
            ("-N", "4", "--time", "4:00", "--partition", "big"),
            ["--nodes=4", "--ntasks-per-node=4", "--time=04:00:00", "--partition=big", "--exclusive"],
        ),
        (
            "%ddl submit --profile a100",
            ("-n", "8"),
            ["--nodes=1", "--ntasks-per-node=8", "--time=02:00:00", "--partition=gpu", "--exclusive"],
        ),
        (
            "%ddl submit -N 2 --ntasks-per-node=3 -p small",
            (),
            ["--nodes=2", "--ntasks-per-node=3", "--partition=small"],
        ),
        (
            "%ddl submit --time 0:30",
            ("--profile", "plain"),
            ["--nodes=3", "--ntasks-per-node=1", "--time=00:30:00"],
        ),
        # What another scheduler's profile says is not for this one, but for the shape and the time.
        ("%ddl submit --profile queue --ntasks-per-node 2 -p work", (), ["--nodes=1", "--ntasks-per-node=2"]),
    ],
)
def test_the_job_is_as_the_notebooks_own_cell_submits_it(
    export: Callable[..., tuple[Path, str]], cell: str, options: tuple[str, ...], script: list[str]
) -> None:
    folder, said = export("--slurm", *options, cells=(f"%load_ext jupyter_ddl\n{cell}", "%%distributed\n1"))
    assert "Send it: sbatch" in said
    written = script_of(folder)
    assert [line for line in written if not line.startswith("module")] == script
    assert ("module load cuda/12.4" in written) == ("a100" in cell)
    copy = nbformat.read(folder / "notebook.ipynb", as_version=4)
    assert len(copy.cells) == 3


@pytest.mark.usefixtures("profiles")
def test_a_script_has_as_many_ranks_as_the_notebooks_own_cell_submits(
    export: Callable[..., tuple[Path, str]],
) -> None:
    folder, _ = export("--script", cells=(f"{SUBMITS} --profile a100 -p gpu", "%%distributed\n1"))
    assert ExportFolder(folder).order().ranks == 8
    assert "module load" not in (folder / "job.sh").read_text()


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize(
    ("cells", "options", "said"),
    [
        (
            (f"{SUBMITS} --profile a100", "%ddl submit -N 3"),
            (),
            r"job of an export is one.*Received: %ddl submit --profile a100 and %ddl submit -N 3\. Say which: add",
        ),
        ((f"{SUBMITS} --profile none",), (), r"Received: 'none'"),
        ((f"{SUBMITS} -N 0",), (), r"nodes must be .*Received: nodes=0"),
        # As many ranks as the cell's own profile says.
        ((f"{SUBMITS} --profile a100",), ("-n", "4"), r"as its notebook starts\. Received: 4, and a start of 8 in"),
        ((SUBMITS, f"{SUBMITS} --profile a100"), ("-N", "1"), r"Received: 1, and a start of 8 in"),
    ],
)
def test_what_a_notebooks_own_cells_ask_for_is_checked(
    export: Callable[..., tuple[Path, str]], cells: tuple[str, ...], options: tuple[str, ...], said: str
) -> None:
    folder, told = export("--slurm", *options, cells=(*cells, "%%distributed\n1"))
    assert re.search(said, told), told
    assert not folder.exists()
