"""Makes an export of what a command line or the panel asks for, and says what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from jupyter_ddl.cluster.jobs_known import scheduler_named
from jupyter_ddl.cluster.submission import wanted_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export.execution import check_runner
from jupyter_ddl.export.order import SCRIPT
from jupyter_ddl.export.writing import Export, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Kind = Literal["slurm", "pbs", "lsf", "script"]
# The options of a job, as `jupyter_ddl.submit` names them.
OF_THE_JOB = ("nodes", "ntasks_per_node", "time", "partition", "account", "gpus_per_node", "cpus_per_task")
_SENDS = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub <", "script": "bash"}


def export(
    notebook: Path,
    kind: str,
    given: Mapping[str, Any],
    *,
    ranks: int | None = None,
    profile: str | None = None,
    **more: Any,
) -> str:
    """Write the folder of an export; return what it has, how it is sent and how it comes back, as lines.

    Args:
        notebook: its file.
        kind: a `Kind`.
        given: options of the job by their names; None for what was not given.
        ranks: in all; None for what the notebook says.
        profile: of a site's or a user's file.
        more: as `Export` has it.

    Raises:
        InvalidInput: an option breaks a rule, or the notebook cannot be exported.
    """
    check_runner()
    if kind not in get_args(Kind):
        raise InvalidInput("An export is for one of slurm, pbs, lsf and script.", repr(kind), "Choose one.")
    wanted = wanted_of(profile, given, name=None, keep=False, rebuild=True)
    has_shape = given.get("nodes") is not None or given.get("ntasks_per_node") is not None or wanted.ranks > 1
    folder, order = write(Export(notebook, wanted, scheduler_named(kind), ranks, has_shape, **more))
    times = f"{len(order.points)} times, " if len(order.points) > 1 else ""
    return (
        f"{folder.path}: {notebook.name} {times}on {order.ranks} ranks.\n"
        f"Send it: {_SENDS[kind]} {folder.path / SCRIPT}\n"
        f"It comes back as {folder.executed(order, 0).name} there" + (" and so on." if times else ".")
    )
