"""Makes the folder of an export: the copy of the notebook, the job's script, and what the job runs."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster.submission import check_launcher, check_wanted
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export import kubernetes
from jupyter_ddl.export import notebook as notebooks
from jupyter_ddl.export.order import MPI_JOB, NOTEBOOK, ORDER, SCRIPT, TRAIN_JOB, ExportFolder, ExportOrder
from jupyter_ddl.export.parameters import points_of
from jupyter_ddl.export.scripts import batch_script, output_of, plain_script
from jupyter_ddl.export.submit_lines import jobs_of
from jupyter_ddl.host import files
from jupyter_ddl.launch.profiles.limits import seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.cluster.submission import Wanted
    from jupyter_ddl.launch.schedulers.scheduler import Scheduler


@dataclass(frozen=True)
class Export:
    """What is exported, and how.

    Attributes:
        notebook: its file.
        kind: what it is for: a scheduler's kind, "script" or "kubernetes".
        wanted: of the job; its ranks are those of the notebook, where `ranks` is None.
        scheduler: takes the job; None for a plain script, and for Kubernetes.
        pods: the image and the volume claim of Kubernetes; None for others.
        ranks: in all, as the user gave them; None where not.
        has_shape: the user, or a profile, gave nodes or ranks on each.
        parameters: names and values, the same for all points.
        sweeps: each "NAME=VALUE,VALUE".
        folder: where it is written; None for one beside the notebook.
        is_forced: an earlier export there is replaced.
        is_numbered: where one is there, the folder beside the notebook gets another name.
    """

    notebook: Path
    kind: str
    wanted: Wanted
    scheduler: Scheduler | None
    ranks: int | None = None
    has_shape: bool = False
    parameters: Sequence[tuple[str, str]] = ()
    sweeps: Sequence[str] = ()
    folder: Path | None = None
    is_forced: bool = False
    is_numbered: bool = False
    pods: tuple[str, str] | None = None


def write(export: Export) -> tuple[ExportFolder, ExportOrder]:
    """Make the folder; return it, and what its job runs.

    Raises:
        InvalidInput: the notebook cannot be exported, its ranks are not known, an option breaks a rule, or something
            else is in the folder's place.
    """
    path = export.notebook.absolute()
    check_wanted(export.wanted)
    check_launcher(export.wanted, export.kind)
    read = notebooks.read_notebook(path)
    wanted = _with_ranks(export, _ranks_said(read))
    check_wanted(wanted)
    points = points_of(export.parameters, export.sweeps, notebooks.parameter_names(read))
    swept = [sweep.partition("=")[0] for sweep in export.sweeps]
    _check_pods(export)
    # Nothing is written before all is known to be as it must: a second try finds no folder of the first.
    folder = ExportFolder(_chosen(export, path))
    # A pod sees the folder, and not its user's home.
    runs = paths.runs_dir() if export.pods is None else folder.path / "runs"
    order = ExportOrder(path.stem, wanted.ranks, str(path.parent), str(runs), points, swept)
    if export.pods is None:
        sent = {SCRIPT: _script(export.scheduler, wanted, folder, order)}
    else:
        sent = _objects(export.pods, wanted, folder, order)
    _make(folder.path)
    folder.write_order(order)
    _write_notebook(folder, notebooks.job_copy(read))
    for name, text in sent.items():
        files.replace(folder.path / name, text, mode=files.SHARED if export.pods else 0o777)
    return folder, order


def _ranks_said(read: object) -> int | None:
    """Return how many ranks the notebook starts, or submits, at most; None where it leaves that open."""
    submitted = [asked.wanted().ranks for asked in jobs_of(read)]
    return max([*submitted, notebooks.ranks_of(read) or 0]) or None


def _with_ranks(export: Export, said: int | None) -> Wanted:
    """Return what is wanted, with as many ranks as the notebook starts where no number was given."""
    wanted = export.wanted
    if export.has_shape:
        given: int | None = wanted.ranks
    else:
        given = export.ranks
    if export.has_shape and export.ranks is not None and export.ranks != wanted.ranks:
        raise InvalidInput(
            "-n is the number of ranks in all.",
            f"-n {export.ranks}, and {wanted.nodes} x {wanted.ntasks_per_node} by nodes and ranks on each",
            "Leave one out.",
        )
    ranks = said if given is None else given
    if ranks is None:
        raise InvalidInput(
            "The number of the job's ranks must be known.",
            f"{export.notebook}, which leaves it open",
            "Add -n 4, or -N 2 --ntasks-per-node 4.",
        )
    if said is not None and said > ranks:
        raise InvalidInput(
            "A job must have as many ranks as its notebook starts.",
            f"{ranks}, and a start of {said} in {export.notebook}",
            f"Ask for {said}, or start fewer.",
        )
    return wanted if export.has_shape else replace(wanted, nodes=1, ntasks_per_node=ranks)


def _chosen(export: Export, notebook: Path) -> Path:
    """Return the export's folder.

    Raises:
        InvalidInput: something else is in its place.
    """
    beside = notebook.with_name(f"{notebook.stem}-{export.kind}")
    folder = beside if export.folder is None else export.folder.absolute()
    if export.is_numbered:
        # An earlier job may still wait for its own, or has brought its notebook back there.
        others = (beside.with_name(f"{beside.name}-{number}") for number in itertools.count(2))
        folder = next(one for one in itertools.chain([folder], others) if not one.exists())
    if folder.exists():
        is_ours = (folder / ORDER).is_file()
        if not is_ours or not export.is_forced:
            raise InvalidInput(
                "An export makes a folder of its own.",
                f"{folder}, which is there" + ("" if is_ours else " and is none of an export"),
                "Name another with -o." if not is_ours else "Add --force to replace it, or name another with -o.",
            )
    return folder


def _make(folder: Path) -> None:
    """Make the folder, without what came of an earlier export there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            "An export must be able to make its folder.", f"{folder} ({error.strerror})", "Name another with -o."
        ) from error
    for old in (*folder.glob("executed*.ipynb"), *folder.glob("result*.json"), *folder.glob("comparison.html")):
        old.unlink()


def _write_notebook(folder: ExportFolder, copy: object) -> None:
    import nbformat

    text: str = nbformat.writes(copy)  # type: ignore[no-untyped-call]
    files.replace(folder.path / NOTEBOOK, text + "\n", mode=files.SHARED)


def _check_pods(export: Export) -> None:
    """Raise where Kubernetes is asked for what is not written for it."""
    if export.pods is not None and export.sweeps:
        raise InvalidInput(
            "A sweep is for --slurm, --pbs, --lsf or --script.",
            "--sweep with --kubernetes",
            "Export each point with -p and -o.",
        )


def _objects(pods: tuple[str, str], wanted: Wanted, folder: ExportFolder, order: ExportOrder) -> dict[str, str]:
    """Return the files of the objects of Kubernetes."""
    image, claim = pods
    made = kubernetes.Pods(
        image,
        claim,
        order.working_folder,
        ["jupyter", "ddl", "execute", str(folder.path), "--hostfile", kubernetes.HOSTFILE],
        wanted.nodes,
        wanted.ntasks_per_node,
        wanted.gpus_per_node,
        wanted.cpus_per_task,
        None if wanted.time is None else seconds_of(wanted.time),
    )
    name = kubernetes.object_name(order.title)
    objects = {MPI_JOB: kubernetes.mpi_job(name, made), TRAIN_JOB: kubernetes.train_job(name, made)}
    return {file: json.dumps(content, indent=1) + "\n" for file, content in objects.items()}


def _script(scheduler: Scheduler | None, wanted: Wanted, folder: ExportFolder, order: ExportOrder) -> str:
    count = len(order.points)
    if scheduler is None:
        return plain_script(folder, count, wanted.setup)
    # Schedulers take few characters in a name.
    name = re.sub(r"[^A-Za-z0-9_-]", "-", order.title)[:40]
    request = wanted.request(name, output_of(folder, scheduler, count), Path(order.working_folder))
    return batch_script(folder, scheduler, request, count)
