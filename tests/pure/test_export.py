"""What a notebook's export writes, and what it refuses; how ranks start in its job."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export import cell_teller, execution, results
from jupyter_ddl.export.notebook import job_copy, parameter_names, ranks_of, read_notebook
from jupyter_ddl.export.order import ExportFolder, ExportOrder
from jupyter_ddl.export.parameters import points_of, value_of
from jupyter_ddl.export.scripts import point_of
from jupyter_ddl.export.submit_lines import jobs_of
from jupyter_ddl.kernel import exported
from jupyter_ddl.launch.profiles.profile import Defaults, Named, Profile
from jupyter_ddl.launch.profiles.start_options import StartOptions
from jupyter_ddl.protocol.exported_job import ExportedJob
from jupyter_ddl.views.sweep_page import Curve, SweepRow, sweep_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = "%load_ext jupyter_ddl\n%ddl start -n 2"
PARAMETERS = "rate = 0.1\nepochs: int = 1\nn = None"


def notebook_of(*sources: str) -> Any:
    """Return a notebook of code cells, the first of which has the parameters."""
    first = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    outputs = [nbformat.v4.new_output("stream", text="old\n")]
    cells = [nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=3) for source in sources]
    return nbformat.v4.new_notebook(cells=[first, *cells])


@pytest.fixture
def export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Path, str]]:
    """Return what exports a notebook of these cells by these options; it returns the folder and what was said."""
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))

    def run(*options: str, cells: tuple[str, ...] = (START, "%%distributed\n1")) -> tuple[Path, str]:
        nbformat.write(notebook_of(*cells), tmp_path / "my course.ipynb")
        status = main(["export", str(tmp_path / "my course.ipynb"), *options])
        said = capsys.readouterr()
        assert status == bool(said.err)
        return tmp_path / f"my course-{options[0].lstrip('-')}", said.out + said.err

    return run


def test_slurm_gets_a_job_that_runs_the_copy(export: Callable[..., tuple[Path, str]], tmp_path: Path) -> None:
    folder, said = export("--slurm", "-N", "2", "--ntasks-per-node", "1", "--time", "1:30", "--partition", "gpu")
    assert said == (
        f"{folder}: my course.ipynb on 2 ranks.\nSend it: sbatch {folder}/job.sh\n"
        "It comes back as executed.ipynb there.\n"
    )
    lines = (folder / "job.sh").read_text().splitlines()
    assert lines[:-2] == [
        "#!/bin/bash",
        "#SBATCH --job-name=ddl-my-course",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --output={folder}/job.log",
        f"#SBATCH --chdir={tmp_path}",
        "#SBATCH --open-mode=append",
        "#SBATCH --time=01:30:00",
        "#SBATCH --partition=gpu",
    ]
    assert lines[-1].startswith(f"exec {sys.executable} ")
    assert lines[-1].endswith(f"jupyter_ddl.cli execute '{folder}'")
    copy = nbformat.read(folder / "notebook.ipynb", as_version=4)
    nbformat.validate(copy)
    assert [cell.source for cell in copy.cells] == [PARAMETERS, START, "%%distributed\n1"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in copy.cells)
    order = ExportFolder(folder).order()
    assert order == ExportOrder("my course", 2, str(tmp_path), str(tmp_path / "runs"), [{}], [])


@pytest.mark.parametrize(
    ("kind", "expected", "command"),
    [
        ("--slurm", ["#SBATCH --array=0-3", "--output={}/job-%a.log"], "sbatch {}/job.sh"),
        ("--pbs", ["#PBS -J 0-3", "#PBS -o {}\n", "select=1:ncpus=2:mpiprocs=2"], "qsub {}/job.sh"),
        ("--lsf", ['#BSUB -J "ddl-my-course[1-4]"', "-o {}/job-%I.log"], "bsub < {}/job.sh"),
        ("--script", ["for point in $(seq 0 3); do", '--point "$point" || status=$?'], "bash {}/job.sh"),
    ],
)
def test_a_sweep_is_an_array_of_jobs(
    export: Callable[..., tuple[Path, str]], kind: str, expected: list[str], command: str
) -> None:
    folder, said = export(kind, "--sweep", "rate=0.1,0.01", "--sweep", "epochs=1,2", "-p", "n", "2")
    script = (folder / "job.sh").read_text()
    assert all(line.format(folder) in script for line in expected), script
    assert f"my course.ipynb 4 times, on 2 ranks.\nSend it: {command.format(folder)}\n" in said
    assert ExportFolder(folder).order().points == [
        {"n": 2, "rate": rate, "epochs": epochs} for rate in (0.1, 0.01) for epochs in (1, 2)
    ]


@pytest.mark.parametrize(
    ("variables", "point"),
    [
        ({}, 0),
        ({"SLURM_ARRAY_TASK_ID": "3"}, 3),
        ({"PBS_ARRAY_INDEX": "2"}, 2),
        ({"LSB_JOBINDEX": "4"}, 3),
        # Of a job that is no array.
        ({"LSB_JOBINDEX": "0"}, 0),
        ({"PBS_ARRAY_INDEX": "x"}, 0),
    ],
)
def test_a_job_of_an_array_knows_its_point(variables: dict[str, str], point: int) -> None:
    assert point_of(variables) == point


@pytest.mark.parametrize(
    ("cells", "options", "said"),
    [
        (
            ("1",),
            (),
            r"must have cells with %%distributed, or .*\. Received: .*my course\.ipynb, which has none\. Submit",
        ),
        (
            (START, "%ddl attach x", "%%distributed\n1"),
            (),
            r"start its ranks itself\. Received: %ddl attach in cell 2\.",
        ),
        (("%%distributed\n1",), (), r"number of the job's ranks must be known\. Received: .*leaves it open\. Add -n 4"),
        (
            (START, "%%distributed\n1"),
            ("-n", "1"),
            r"as many ranks as its notebook starts\. Received: 1, and a start of 2 in .*",
        ),
        (
            (START, "%%distributed\n1"),
            ("-n", "4", "-N", "2"),
            r"-n is the number of ranks in all\. Received: -n 4, and 2 x 1",
        ),
        (
            (START, "%%distributed\n1"),
            ("-p", "lr", "1"),
            r"tag `parameters`\. Received: lr, for .* epochs, n, rate\. Set",
        ),
        ((START, "%%distributed\n1"), ("--sweep", "rate"), r"written as NAME=VALUE,VALUE\. Received: 'rate'\. Write"),
        ((START, "%%distributed\n1"), ("--sweep", "rate=1,"), r"written as NAME=VALUE,VALUE\. Received: 'rate=1,'"),
        (
            (START, "%%distributed\n1"),
            ("-p", "rate", "1", "--sweep", "rate=1,2"),
            r"A parameter is given once\. Received: rate twice\. Leave one out\.",
        ),
        ((START, "%%distributed\n1"), ("-N", "0"), r"nodes must be .*Received: nodes=0\. Pass -N 1 or more"),
    ],
)
def test_what_cannot_be_exported_is_said(
    export: Callable[..., tuple[Path, str]], cells: tuple[str, ...], options: tuple[str, ...], said: str
) -> None:
    folder, told = export("--slurm", *options, cells=cells)
    assert re.search(said, told), told
    assert not folder.exists()


# The fields of the two kinds that may be there, and those that must: by their documentation, and compared with their
# schemas once (CustomResourceDefinitions of mpi-operator 2026-07 and trainer 2026-08).
MPI_JOB: dict[str, Any] = {
    "slotsPerWorker": int,
    "mpiImplementation": str,
    "launcherCreationPolicy": str,
    "runPolicy": {"cleanPodPolicy": str, "backoffLimit": int, "activeDeadlineSeconds": int},
    "mpiReplicaSpecs": {"Launcher": {"replicas": int, "template": dict}, "Worker": {"replicas": int, "template": dict}},
}
TRAIN_JOB: dict[str, Any] = {
    "runtimeRef": {"name": str},
    "trainer": {"image": str, "command": list, "numNodes": int, "numProcPerNode": int, "resourcesPerNode": dict},
    "runtimePatches": list,
    "activeDeadlineSeconds": int,
}


def unknown(found: Any, known: Any, at: str = "") -> list[str]:
    """Return the fields that a kind does not have, or whose value is of another type."""
    if not isinstance(known, dict):
        return [] if isinstance(found, known) else [at]
    return [
        name
        for key, value in found.items()
        for name in (unknown(value, known[key], f"{at}.{key}") if key in known else [key])
    ]


def test_kubernetes_gets_two_kinds_of_jobs(export: Callable[..., tuple[Path, str]], tmp_path: Path) -> None:
    options = ("-N", "2", "--ntasks-per-node", "4", "--gpus-per-node", "4", "--cpus-per-task", "2", "--time", "1:00")
    folder, said = export("--kubernetes", "--image", "site/ddl:1", "--claim", "course", *options)
    assert f"Send it: kubectl create -f {folder}/mpijob.json (the MPI operator)" in said
    assert not (folder / "job.sh").exists()
    assert ExportFolder(folder).order().runs == str(folder / "runs")
    mpi, train = (json.loads((folder / f"{kind}.json").read_text()) for kind in ("mpijob", "trainjob"))
    assert (mpi["apiVersion"], mpi["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert (train["apiVersion"], train["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert mpi["metadata"] == train["metadata"] == {"name": "ddl-my-course"}
    assert unknown(mpi["spec"], MPI_JOB) == []
    assert unknown(train["spec"], TRAIN_JOB) == []
    launcher, worker = (mpi["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"] for kind in ("Launcher", "Worker"))
    command = ["jupyter", "ddl", "execute", str(folder), "--hostfile", "/etc/mpi/hostfile"]
    assert launcher["containers"][0]["command"] == train["spec"]["trainer"]["command"] == command
    assert mpi["spec"]["slotsPerWorker"] == train["spec"]["trainer"]["numProcPerNode"] == 4
    assert worker["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 4, "cpu": 8}}
    assert mpi["spec"]["runPolicy"]["activeDeadlineSeconds"] == train["spec"]["activeDeadlineSeconds"] == 3600
    for spec in (launcher, worker):
        assert spec["volumes"] == [{"name": "work", "persistentVolumeClaim": {"claimName": "course"}}]
        assert spec["containers"][0]["volumeMounts"] == [{"name": "work", "mountPath": str(tmp_path)}]
    (patch,) = train["spec"]["runtimePatches"]
    jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == ["launcher", "node"]


def test_a_long_curve_is_thinned_and_keeps_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path))
    run = "2026-11-25T10-00-00-default-aa11-0f0f"
    (tmp_path / run).mkdir()
    record = {"run": run, "start_s": 1.0, "ranks": [0], "world_size": 1, "outcome": "finished", "loss": 1.0}
    (tmp_path / run / "run.json").write_text(json.dumps(record))
    sample = {"type": "metrics", "run": run, "rank": 0, "at_s": 1.0, "cpu_pct": 1.0, "rss_bytes": 1, "loss": 1.0}
    lines = [json.dumps(sample | {"step": step, "n": step}) for step in range(1, 1002)]
    (tmp_path / run / "rank-0.events.jsonl").write_text("\n".join(lines) + "\n")
    losses = results.with_runs(results.Result(0, {}, "finished", 1.0, "", "aa11"), 0.0).losses
    assert (losses[0], losses[-1], len(losses)) == ((1, 1.0), (1001, 1.0), 335)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--script", "--partition", "gpu"), "--partition is for the job of a batch scheduler. Received: --partition"),
        (("--script", "--time", "1:00"), "--time is for the job of a batch scheduler. Received: --time with --script."),
        (("--script", "--option=--x"), "--option is for the job of a batch scheduler."),
        (("--script", "--profile", "a"), "--profile is for the job of a batch scheduler. Received: --profile with"),
        (("--kubernetes", "--image", "i", "--claim", "c", "--account", "a"), "--account with --kubernetes. Leave it"),
    ],
)
def test_what_would_not_be_used_is_refused(
    export: Callable[..., tuple[Path, str]], options: tuple[str, ...], said: str
) -> None:
    _, told = export(*options)
    assert said in told


def test_a_profile_with_an_image_is_refused(
    export: Callable[..., tuple[Path, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "config" / "jupyter_ddl.d").mkdir(parents=True)
    profile = '[boxed]\nlauncher = "slurm"\ncontainer = "ddl.sif"\n'
    (tmp_path / "config" / "jupyter_ddl.d" / "mine.toml").write_text(profile)
    _, told = export("--slurm", "--profile", "boxed")
    assert "outside of images. Received: the profile boxed, whose ranks run in ddl.sif. Write %ddl start" in told


def test_what_kubernetes_lacks_is_said(export: Callable[..., tuple[Path, str]]) -> None:
    _, told = export("--kubernetes", "--claim", "c")
    assert "has an image and a volume claim. Received: no --image. Add --image" in told
    _, told = export("--kubernetes", "--image", "i")
    assert "Received: no --claim." in told
    _, told = export("--kubernetes", "--image", "i", "--claim", "c", "--sweep", "rate=1,2")
    assert "A sweep is for --slurm, --pbs, --lsf or --script. Received: --sweep with --kubernetes." in told


def test_no_notebook_and_no_folder(export: Callable[..., tuple[Path, str]], tmp_path: Path, capsys: Any) -> None:
    assert main(["export", str(tmp_path / "none.ipynb"), "--slurm"]) == 1
    assert "must be a notebook. Received:" in capsys.readouterr().err
    (tmp_path / "text.ipynb").write_text("text")
    assert main(["export", str(tmp_path / "text.ipynb"), "--slurm"]) == 1
    assert "text.ipynb (no notebook). Name a file.ipynb." in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    _, told = export("--slurm", "-o", str(tmp_path / "file" / "in"))
    assert "must be able to make its folder. Received:" in told


def test_an_earlier_export_is_replaced_only_where_asked(export: Callable[..., tuple[Path, str]]) -> None:
    folder, _ = export("--script")
    (folder / "executed.ipynb").write_text("{}")
    _, told = export("--script")
    assert "makes a folder of its own. Received:" in told
    assert "Add --force to replace it" in told
    export("--script", "--force")
    assert not (folder / "executed.ipynb").exists()
    (folder / "job.json").unlink()
    _, told = export("--script", "--force")
    assert "is none of an export. Name another with -o." in told


@pytest.mark.parametrize(
    ("sources", "ranks"),
    [
        ((START,), 2),
        (("%ddl start -n=3 --threads 1", "%ddl start -n 4"), 4),
        (("import jupyter_ddl\nsession = jupyter_ddl.start(n=5, progress=print)\n%ddl status",), 5),
        (("session = jupyter_ddl.start(7)",), 7),
        # A variable, a string that does not end, and a program on ranks say nothing.
        (
            ("jupyter_ddl.start(n=n)", "%ddl start -n $n", "%ddl start -n 'x", "%%distributed\njupyter_ddl.start(n=9)"),
            None,
        ),
        (("def broken(",), None),
    ],
)
def test_the_ranks_of_a_notebook_are_read(sources: tuple[str, ...], ranks: int | None) -> None:
    assert ranks_of(notebook_of(*sources)) == ranks


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
SUBMITS = "%load_ext jupyter_ddl\n%ddl submit"


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


def test_ranks_start_in_the_job_whatever_the_notebook_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported.job() is None
    monkeypatch.setenv(paths.EXPORT_VARIABLE, '{"type": "exported_job", "ranks": 4, "suffix": "3f9c"}')
    job = exported.job()
    assert job == ExportedJob(4, "3f9c")
    named = StartOptions(None, 3, {"A": "1"}, "elsewhere:9", "file", "ssh -p 7", local=True, container="ddl.sif")
    assert exported.options_in_job(job, None, named) == StartOptions(4, 3, {"A": "1"}, container="ddl.sif")
    assert exported.options_in_job(job, None, StartOptions(2)).n == 2
    assert exported.options_in_job(ExportedJob(4, "a", "/etc/hosts"), None, named).hostfile == "/etc/hosts"
    assert [exported.name_in_job(job, name) for name in (None, "mine")] == ["default-3f9c", "mine-3f9c"]
    with pytest.raises(InvalidInput, match=r"as the notebook starts\. Received: n=5 in a job of 4\. Export it again"):
        exported.options_in_job(job, None, StartOptions(5))
    monkeypatch.setenv(paths.EXPORT_VARIABLE, "x")
    with pytest.raises(InvalidInput, match=r"set by `jupyter ddl execute`\. Received: 'x', which is none"):
        exported.job()


@pytest.mark.parametrize("launcher", ["local", "hosts", "slurm"])
def test_a_profile_that_the_notebook_names_says_all_but_where(launcher: Any) -> None:
    """Also one of a scheduler, where the job is of another one or of none."""
    profile = Profile(
        launcher=launcher,
        hosts="nodea:2" if launcher == "hosts" else None,
        ssh="ssh -p 7",
        environment={"A": "1"},
        container="ddl.sif",
        defaults=Defaults(ranks=2, threads=3),
    )
    found = exported.options_in_job(ExportedJob(4, "a"), Named("site", "site.toml", profile), StartOptions())
    assert found == StartOptions(2, 3, {"A": "1"}, container="ddl.sif")


def test_what_is_no_export_or_no_point_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["execute", str(tmp_path)]) == 1
    assert "must be a folder that `jupyter ddl export` made. Received:" in capsys.readouterr().err
    ExportFolder(tmp_path).write_order(ExportOrder("a", 2, str(tmp_path), str(tmp_path)))
    assert main(["execute", str(tmp_path), "--point", "1"]) == 1
    assert "has the points 0 to 0. Received: point 1." in capsys.readouterr().err
    monkeypatch.setattr(execution.importlib.util, "find_spec", lambda _: None)
    assert main(["execute", str(tmp_path)]) == 1
    assert "is run by papermill. Received: an environment without it. Install it: pip" in capsys.readouterr().err


def test_the_last_job_of_a_sweep_leaves_the_page_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    run = "2026-11-25T10-00-00-default-aa11-0f0f"
    made = tmp_path / "runs" / run
    made.mkdir(parents=True)
    record = {"run": run, "start_s": 1.0, "ranks": [0, 1], "world_size": 2, "outcome": "finished", "loss": 0.25}
    (made / "run.json").write_text(json.dumps(record))
    sample = {"type": "metrics", "run": run, "at_s": 1.0, "cpu_pct": 1.0, "rss_bytes": 1}
    lines = [sample | {"rank": 0, "step": step, "loss": 1 / step, "n": step} for step in (1, 2, 4)]
    (made / "rank-0.events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    order = ExportOrder("a <b>", 2, str(tmp_path), str(tmp_path / "runs"), [{"lr": 0.1}, {"lr": "<i>"}], ["lr"])
    folder = ExportFolder(tmp_path)
    before = results.Result(0, {"lr": 0.1}, "finished", 61.0, "", "aa11")
    first = results.with_runs(before, 1.0)
    assert (first.runs, first.loss, first.losses) == ([run], 0.25, [(1, 1.0), (2, 0.5), (4, 0.25)])
    # Those that began before are not looked at.
    assert results.with_runs(before, 2.0) == before
    results.write(folder, order, first)
    page = (tmp_path / "comparison.html").read_text()
    assert "1 of 2 points are over." in page
    assert "not there yet" in page
    results.write(folder, order, results.Result(1, {"lr": "<i>"}, "failed", 3.0, "ValueError: <script>", "bb22"))
    page = (tmp_path / "comparison.html").read_text()
    assert "2 of 2 points are over." in page
    assert '<td class="number best">0.25</td>' in page
    assert "<polyline" in page
    assert "&lt;script&gt;" in page
    assert "&#x27;&lt;i&gt;&#x27;" in page
    assert not any(text in page for text in ("<script", "<i>", "<b>", "http"))
    assert sorted(path.name for path in tmp_path.glob("result*")) == ["result-0.json", "result-1.json"]


def test_a_page_without_figures_and_with_strange_ones() -> None:
    assert "0 of 0 points" in sweep_page("none", [], [])
    rows = [SweepRow({"a": 1}, "finished", 1.0, float("nan")), SweepRow({"a": 2}, "stopped", 2.0, 0.5)]
    page = sweep_page("nan", rows, [Curve({"a": 1}, [(1, float("nan"))])])
    assert "nan</td>" in page
    assert 'best"' not in page
    assert "<svg" not in page
    many = [Curve({"a": at}, [(0, 1.0), (5, 1.0)]) for at in range(9)]
    assert sweep_page("many", rows, many).count("<polyline") == 9


def test_what_a_cell_shows_is_printed_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_teller, "_EVERY_S", 0.05)
    teller = cell_teller.CellTeller("  ")
    cell = nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text="one\ntwo\n")])
    told = []

    async def run() -> None:
        teller.follow(cell)
        told.append(capsys.readouterr().out)
        for _ in range(2):
            before = len(told)
            while len(told) == before:
                await asyncio.sleep(0.01)
                if said := capsys.readouterr().out:
                    told.append(said)
        cell.outputs.append(nbformat.v4.new_output("display_data", data={"text/plain": "three"}))
        teller.follow(cell)
        teller.end(cell)

    asyncio.run(run())
    # The newest line comes once nothing has changed for a while.
    assert told == ["", "  one\n", "  two\n"]
    assert capsys.readouterr().out == "  three\n"
    other = nbformat.v4.new_code_cell("2", outputs=[nbformat.v4.new_output("stream", text="one\n")])
    teller.end(other)
    assert capsys.readouterr().out == "  one\n"
