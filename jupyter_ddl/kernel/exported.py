"""Says where ranks start in the kernel of an exported notebook: in its job, whatever place the notebook names.

Runs on: kernel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from jupyter_ddl.cluster.planning import DEFAULT_NAME
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import EXPORT_VARIABLE
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.exported_job import ExportedJob


@dataclass(frozen=True)
class JobStart:
    """How ranks start in the job.

    Attributes:
        n: how many.
        name: of their cluster.
        hostfile: where their hosts are listed; None where the job's scheduler says them.
    """

    n: int
    name: str
    hostfile: str | None


def job() -> ExportedJob | None:
    """Return the job of this kernel's exported notebook; None in any other kernel.

    Raises:
        InvalidInput: the variable holds something else.
    """
    text = os.environ.get(EXPORT_VARIABLE)
    if text is None:
        return None
    try:
        found: ExportedJob = decode(text, ExportedJob)
    except ValueError as error:
        raise InvalidInput(
            f"{EXPORT_VARIABLE} is set by `jupyter ddl execute`.", f"{text!r}, which is none of its", "Unset it."
        ) from error
    return found


def start_in_job(job: ExportedJob, n: int | None, name: str | None) -> JobStart:
    """Return how ranks start there.

    Args:
        job: of this kernel.
        n: the ranks that the notebook asks for; None where it leaves that open.
        name: of the cluster, likewise.

    Raises:
        InvalidInput: the job has not as many.
    """
    if n is not None and n > job.ranks:
        raise InvalidInput(
            "The job of an exported notebook must have as many ranks as the notebook starts.",
            f"n={n} in a job of {job.ranks}",
            f"Export it again for {n} ranks.",
        )
    # Another cluster of the name may run elsewhere in the same home.
    return JobStart(
        job.ranks if n is None else n, f"{DEFAULT_NAME if name is None else name}-{job.suffix}", job.hostfile
    )
