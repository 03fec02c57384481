"""Makes an export of what a command line or the panel asks for, and says what came of it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from jupyter_ddl.cluster.jobs_known import scheduler_named
from jupyter_ddl.cluster.submission import wanted_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export.execution import check_runner
from jupyter_ddl.export.kubernetes import check_image
from jupyter_ddl.export.notebook import read_notebook
from jupyter_ddl.export.order import MPI_JOB, SCRIPT, TRAIN_JOB
from jupyter_ddl.export.submit_lines import jobs_of, the_one_of
from jupyter_ddl.export.writing import Export, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_ddl.export.submit_lines import Asked

Kind = Literal["slurm", "pbs", "lsf", "script", "kubernetes"]
# The options of a job, as `jupyter_ddl.submit` names them.
OF_THE_JOB = ("nodes", "ntasks_per_node", "time", "partition", "account", "gpus_per_node", "cpus_per_task")
# What an export without a scheduler uses of these.
_USES = {
    "script": ("nodes", "ntasks_per_node"),
    "kubernetes": ("nodes", "ntasks_per_node", "time", "gpus_per_node", "cpus_per_task"),
}
_SENDS = {
    "slurm": "sbatch {job}",
    "pbs": "qsub {job}",
    "lsf": "bsub < {job}",
    "script": "bash {job}",
    "kubernetes": "kubectl create -f {mpi_job} (the MPI operator), or -f {train_job} (Kubeflow's Trainer)",
}


def export(
    notebook: Path,
    kind: str,
    given: Mapping[str, Any],
    *,
    ranks: int | None = None,
    profile: str | None = None,
    image: str | None = None,
    claim: str | None = None,
    **more: Any,
) -> str:
    """Write the folder of an export; return what it has, how it is sent and how it comes back, as lines.

    Args:
        notebook: its file.
        kind: a `Kind`.
        given: options of the job by their names; None for what was not given, which the notebook's submit may say.
        ranks: in all; None for what the notebook says.
        profile: of a site's or a user's file; None for that of the notebook's own `%ddl submit`, if it has one.
        image: of the pods of Kubernetes.
        claim: the volume claim in which the notebook's folder is.
        more: as `Export` has it.

    Raises:
        InvalidInput: an option breaks a rule, or the notebook cannot be exported.
    """
    check_runner()
    if kind not in get_args(Kind):
        raise InvalidInput(f"An export is for one of {', '.join(get_args(Kind))}.", repr(kind), "Choose one.")
    _check_used(kind, given, profile)
    jobs = jobs_of(read_notebook(notebook))
    named = profile
    given, profile = _joined(jobs, kind, given, ranks=ranks, profile=profile)
    wanted = wanted_of(profile, given, name=None, keep=False, rebuild=True)
    # A cell that names the profile starts its ranks in the profile's image by itself.
    if wanted.container is not None and named is not None and all(one.profile != named for one in jobs):
        raise InvalidInput(
            "An exported notebook's kernel runs on the job's first node, outside of images.",
            f"the profile {profile}, whose ranks run in {wanted.container}",
            f"Write %ddl start --container {wanted.container} in the notebook, and export it without the profile.",
        )
    has_shape = given.get("nodes") is not None or given.get("ntasks_per_node") is not None or wanted.ranks > 1
    wanted = replace(wanted, container=None)
    pods = check_image(image, claim) if kind == "kubernetes" else None
    folder, order = write(Export(notebook, kind, wanted, scheduler_named(kind), ranks, has_shape, pods=pods, **more))
    times = f"{len(order.points)} times, " if len(order.points) > 1 else ""
    # As a shell takes them: a notebook's name may have spaces.
    job, mpi_job, train_job = (shlex.quote(str(folder.path / name)) for name in (SCRIPT, MPI_JOB, TRAIN_JOB))
    send = _SENDS[kind].format(job=job, mpi_job=mpi_job, train_job=train_job)
    return (
        f"{folder.path}: {notebook.name} {times}on {order.ranks} ranks.\n"
        f"Send it: {send}\n"
        f"It comes back as {folder.executed(order, 0).name} there" + (" and so on." if times else ".")
    )


def _joined(
    jobs: list[Asked], kind: str, given: Mapping[str, Any], *, ranks: int | None, profile: str | None
) -> tuple[Mapping[str, Any], str | None]:
    """Return the options of the job and its profile: what the user gave, else what the notebook's cells say.

    Raises:
        InvalidInput: the cells say different things, and the user nothing, or a cell's profile is not there.
    """
    given = {name: value for name, value in given.items() if value not in (None, ())}
    has_said = profile is not None or "nodes" in given or "ntasks_per_node" in given
    asked = None if has_said and len(jobs) > 1 else the_one_of(jobs)
    if asked is None:
        return given, profile
    said, profile = asked.options_for(kind, profile)
    if kind in _USES:
        said = {name: value for name, value in said.items() if name in _USES[kind]}
    if ranks is not None and not {"nodes", "ntasks_per_node"} & set(given):
        said |= {"nodes": 1, "ntasks_per_node": ranks}
    return {**said, **given, "options": (*said.get("options", ()), *given.get("options", ()))}, profile


def _check_used(kind: str, given: Mapping[str, Any], profile: str | None) -> None:
    """Raise where an option is given that only a batch scheduler takes, and there is none."""
    used = _USES.get(kind)
    if used is None:
        return
    unused = [_spelled(name) for name, value in given.items() if value and name not in used]
    unused += [] if profile is None else ["--profile"]
    if unused:
        raise InvalidInput(
            f"{unused[0]} is for the job of a batch scheduler.", f"{unused[0]} with --{kind}", "Leave it out."
        )


def _spelled(name: str) -> str:
    return "--option" if name == "options" else f"--{name.replace('_', '-')}"
