"""Chooses the variables that matter to ranks, and leaves out what may be secret, of a run's parameters too.

Runs on: the terminal's process, Jupyter server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.protocol.parameters import Scalar

LEFT_OUT = "(left out)"
_PREFIXES = (
    *("JUPYTER_DDL_", "HOROVOD_", "OMPI_", "OPAL_", "PMIX_", "PRTE_", "PMI_", "UCX_", "I_MPI_", "HYDRA_", "JSM_"),
    *("NCCL_", "CUDA_", "NVIDIA_", "TF_", "XLA_", "KERAS_", "OMP_", "MKL_", "KMP_", "GLOO_"),
    *("SLURM_", "PBS_", "LSB_", "LSF_", "APPTAINER_", "SINGULARITY_", "CONDA_", "LMOD_", "MODULE"),
)
_NAMES = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LOADEDMODULES",
    "TMPDIR",
    "HOSTNAME",
    "LANG",
)
# Slurm's and conda's own variables of such names hold numbers and paths, which are left out too: better one too many.
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE|KEY|SIGNATURE", re.IGNORECASE)
# https://user:password@host
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@")


def shown_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter to ranks, sorted; a value that may be secret is `LEFT_OUT`.

    Example:
        >>> shown_variables({"NCCL_DEBUG": "INFO", "JUPYTER_DDL_TOKEN": "x", "HOME": "/home/me"})
        {'JUPYTER_DDL_TOKEN': '(left out)', 'NCCL_DEBUG': 'INFO'}
    """
    return {
        name: LEFT_OUT if _SECRET.search(name) else without_passwords(environment[name])
        for name in sorted(environment)
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def shown_parameters(parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return a run's parameters, without values that may be secret by the rule of variables.

    Example:
        >>> shown_parameters({"epochs": 3, "hub_token": "x", "data": "https://me:secret@host/mnist"})
        {'epochs': 3, 'hub_token': '(left out)', 'data': 'https://(left out)@host/mnist'}
    """
    return {
        name: LEFT_OUT if _SECRET.search(name) else without_passwords(value) if isinstance(value, str) else value
        for name, value in parameters.items()
    }


def without_passwords(text: str) -> str:
    """Return a text with what stands before the @ of an address left out.

    Example:
        >>> without_passwords("https://me:secret@host/simple")
        'https://(left out)@host/simple'
    """
    return _IN_ADDRESS.sub(f"{LEFT_OUT}@", text)
