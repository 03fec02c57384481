"""Puts a wheel of Horovod where the ranks find it: into this environment, or into a `--target` folder."""

from __future__ import annotations

import os
import site
import sysconfig
from importlib import metadata
from pathlib import Path

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build.pip import run_pip

# Source: horovod 0.28.1, setup.py, require_list (cffi only for PyTorch, dataclasses only before Python 3.7).
RUN_TIME_PACKAGES = ("cloudpickle", "packaging", "psutil", "pyyaml")


def check_destination(folder: Path | None) -> None:
    """Refuse a destination that cannot be written, before minutes go into a build.

    Args:
        folder: the `--target` folder, or None for this environment.

    Raises:
        BuildError: it cannot be written to.
    """
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(folder, error.strerror or str(error), "Pass --target another folder.") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _not_writable(folder, "permission denied", "Pass --target another folder.")
        return
    packages = Path(sysconfig.get_path("platlib"))
    if not os.access(packages, os.W_OK | os.X_OK) and not _is_user_install():
        remedy = "Pass --target DIR with a folder of yours; the ranks find it through JUPYTER_DDL_HOROVOD=DIR."
        raise _not_writable(packages, "read-only or not yours", remedy)


def install_wheel(wheel: Path, folder: Path | None, *, log: Path) -> None:
    """Install the wheel, and of what it needs at run time whatever is not there.

    Raises:
        BuildError: pip could not.
    """
    missing = [name for name in RUN_TIME_PACKAGES if not _is_installed(name)]
    destination = ["--no-user", "--target", str(folder), "--upgrade"] if folder else ["--force-reinstall"]
    run_pip(
        ["install", "--no-deps", *destination, str(wheel), *missing],
        purpose=f"install {wheel.name}",
        remedy="Fix what pip reports, or pass --target DIR with a folder of yours.",
        log=log,
    )


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _is_user_install() -> bool:
    """Whether jupyter_ddl itself lies in the user's site-packages, where pip then puts Horovod too."""
    folder = site.getusersitepackages()
    return bool(site.ENABLE_USER_SITE) and Path(__file__).is_relative_to(folder) and os.access(folder, os.W_OK)


def _not_writable(folder: Path, reason: str, remedy: str) -> BuildError:
    return BuildError("The folder that Horovod is installed into must be writable.", f"{folder} ({reason})", remedy)
