"""Checks PyTorch and JAX, by what is installed, and says what need not be there where one of them is.

Runs on: the machine of the command line, or the kernel. Imports neither.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.report import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

_TITLES = {"torch": "PyTorch", "jax": "JAX"}


def installed_frameworks() -> dict[str, str]:
    """Return the version of each framework besides TensorFlow that is installed: "torch", "jax"."""
    found = {}
    for name in _TITLES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def check_frameworks(installed: Mapping[str, str]) -> list[Check]:
    """Return a check for each of them.

    Args:
        installed: as `installed_frameworks` returned them.
    """
    return [Check(_TITLES[name], "ok", version, facts={"version": version}) for name, version in installed.items()]


def spared(check: Check, package: str, installed: Mapping[str, str]) -> Check:
    """Return a check as a note where what is missing is not needed: ranks train with PyTorch or JAX.

    Args:
        check: of TensorFlow, or of what belongs to it.
        package: that it is about.
        installed: as `installed_frameworks` returned them.
    """
    if check.status != "problem" or not installed or importlib.util.find_spec(package) is not None:
        return check
    titles = " and ".join(_TITLES[name] for name in installed)
    return replace(check, status="note", text=f"not installed: ranks train with {titles}")
