"""What a notebook's export writes, and what it refuses; how ranks start in its job."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from exported_notebooks import PARAMETERS, START, notebook_of

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.export import results
from jupyter_ddl.export.notebook import ranks_of
from jupyter_ddl.export.order import ExportFolder, ExportOrder
from jupyter_ddl.export.scripts import point_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_slurm_gets_a_job_that_runs_the_copy(export: Callable[..., tuple[Path, str]], tmp_path: Path) -> None:
    folder, said = export("--slurm", "-N", "2", "--ntasks-per-node", "1", "--time", "1:30", "--partition", "gpu")
    assert said == (
        f"{folder}: my course.ipynb on 2 ranks.\nSend it: sbatch '{folder}/job.sh'\n"
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
        ("--slurm", ["#SBATCH --array=0-3", "--output={}/job-%a.log"], "sbatch '{}/job.sh'"),
        ("--pbs", ["#PBS -J 0-3", "#PBS -o {}\n", "select=1:ncpus=2:mpiprocs=2"], "qsub '{}/job.sh'"),
        ("--lsf", ['#BSUB -J "ddl-my-course[1-4]"', "-o {}/job-%I.log"], "bsub < '{}/job.sh'"),
        ("--script", ["for point in $(seq 0 3); do", '--point "$point" || status=$?'], "bash '{}/job.sh'"),
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
        ((START, "%%distributed\n1"), ("--time", "soon"), r"time is HOURS:MINUTES\. Received: 'soon'\. Write --time"),
        (
            (START, "%%distributed\n1"),
            ("--partition", "gpu\nrm -rf x"),
            r"--partition takes one name\. Received: 'gpu\\nrm -rf x'\. Leave it out",
        ),
        ((START, "%%distributed\n1"), ("--account", ""), r"--account takes one name\. Received: ''\. Leave it out"),
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
    assert f"Send it: kubectl create -f '{folder}/mpijob.json' (the MPI operator)" in said
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
    _, told = export("--kubernetes", "--image", "i", "--claim", "A B")
    assert "letters, digits, hyphens and points. Received: --claim 'A B'. Write it as `kubectl get pvc`" in told
    folder, told = export("--kubernetes", "--image", "a b", "--claim", "c")
    assert "An image's name has no spaces. Received: --image 'a b'. Write --image REGISTRY/ddl:1." in told
    assert not folder.exists()
    _, told = export("--kubernetes", "--image", "i", "--claim", "c", "--sweep", "rate=1,2")
    assert "A sweep is for --slurm, --pbs, --lsf or --script. Received: --sweep with --kubernetes." in told


def test_no_notebook_and_no_folder(export: Callable[..., tuple[Path, str]], tmp_path: Path, capsys: Any) -> None:
    assert main(["export", str(tmp_path / "none.ipynb"), "--slurm"]) == 1
    assert "must be a notebook. Received:" in capsys.readouterr().err
    (tmp_path / "text.ipynb").write_text("text")
    assert main(["export", str(tmp_path / "text.ipynb"), "--slurm"]) == 1
    assert "text.ipynb (no notebook). Name a file.ipynb." in capsys.readouterr().err
    for text in (
        "[1, 2]",
        "1",
        '{"nbformat": 4}',
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1]}',
    ):
        (tmp_path / "text.ipynb").write_text(text)
        assert main(["export", str(tmp_path / "text.ipynb"), "--slurm"]) == 1
        assert "must be " in capsys.readouterr().err
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
