"""Chooses which of this process's variables ranks on other hosts get.

On one host they get all. mpiexec carries others' values over a connection that is not encrypted, so what looks like a
secret stays here; `--env` hands one over nevertheless.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What belongs to this host or this login: another host has its own.
_OF_THIS_HOST = re.compile(
    r"_|PWD|OLDPWD|SHLVL|HOME|USER|LOGNAME|SHELL|HOSTNAME|HOST|TERM|DISPLAY|TMPDIR|TEMP|TMP|MAIL|LS_COLORS"
    r"|SSH_.*|XDG_.*|DBUS_.*|SYSTEMD_.*|INVOCATION_ID|JOURNAL_STREAM|CUDA_VISIBLE_DEVICES|SLURM_.*|PBS_.*|LSB_.*|JSM_.*"
    # mpiexec carries these itself.
    r"|OMPI_.*|PMIX_.*|PRTE_.*|PMI_.*|HYDRA_.*|I_MPI_.*"
    # The kernel's and JupyterLab's own.
    r"|JPY_.*|JUPYTER(?!_DDL_).*|KERNEL_.*|IPY.*|PYDEVD_.*"
)
_SECRET = re.compile(r".*(TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY).*", re.IGNORECASE)
# A name that a shell cannot export, and mpiexec's -x cannot either.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def forwarded_names(inherited: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Return the names of the variables to carry to other hosts, in alphabetical order.

    Args:
        inherited: this process's environment.
        own: the variables that we set for the ranks, and those of `--env`: all of them go.
    """
    taken = {
        name
        for name in inherited
        if _NAME.fullmatch(name) and not _OF_THIS_HOST.fullmatch(name) and not _SECRET.fullmatch(name)
    }
    carried = {name for name in own if not name.startswith(("OMPI_", "PRTE_", "PMIX_"))}
    return sorted(taken | carried)
