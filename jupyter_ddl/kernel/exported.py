"""Says where ranks start in the kernel of an exported notebook: in its job, whatever place the notebook names.

Runs on: kernel.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.planning import DEFAULT_NAME
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.start_options import with_profile
from jupyter_ddl.paths import EXPORT_VARIABLE
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.exported_job import ExportedJob

if TYPE_CHECKING:
    from jupyter_ddl.launch.profiles.profile import Named
    from jupyter_ddl.launch.profiles.start_options import StartOptions


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


def options_in_job(job: ExportedJob, named: Named | None, given: StartOptions) -> StartOptions:
    """Return the options of a start there: what the notebook and its profile say, but for where.

    Args:
        job: of this kernel.
        named: the profile that the notebook names; None for none.
        given: what the notebook gives.

    Raises:
        InvalidInput: more ranks are to start than the job has, or the profile's lines of setup fail.
    """
    # A profile leaves the place of a start on this host as it is.
    here = replace(given, hosts=None, hostfile=None, ssh=None, local=True, launcher=None)
    options = here if named is None else with_profile(named, here)
    if options.n is not None and options.n > job.ranks:
        raise InvalidInput(
            "The job of an exported notebook must have as many ranks as the notebook starts.",
            f"n={options.n} in a job of {job.ranks}",
            f"Export it again for {options.n} ranks.",
        )
    n = job.ranks if options.n is None else options.n
    return replace(options, n=n, hostfile=job.hostfile, local=False)


def name_in_job(job: ExportedJob, name: str | None) -> str:
    """Return the name of a cluster there: another one of the notebook's name may run elsewhere in the same home."""
    return f"{DEFAULT_NAME if name is None else name}-{job.suffix}"
