"""Starts ranks in an image of Apptainer's or Singularity's: MPI's daemons are the hosts', and the ranks the image's.

The image brings Python, TensorFlow, Horovod and a libmpi; the host brings mpiexec, whose PMIx the libmpi speaks to.
Apptainer hands the host's variables on, but for those of its own paths. What names a path of the host's must not reach
the image: another Python's packages, another MPI's library.
Source: apptainer.org/docs/user, "Apptainer and MPI applications" (hybrid model), "Environment and Metadata".

Runs on: kernel.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.forwarded import forwarded_names
from jupyter_ddl.launch.survey_failures import NO_IMAGE, NO_RUNTIME
from jupyter_ddl.paths import HOROVOD_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RUNTIMES = ("apptainer", "singularity")
# The image's Python is the first on its PATH. The working folder is hidden before anything is imported, as
# host/run_module.py does, whose path in the image is not known here.
_PROGRAM = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
from jupyter_ddl.host.run_module import run
run()
"""
# They name the host's Python, MPI, Horovod or libraries; or they would keep MPI's own variables out of the image.
_OF_THE_HOST = (
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_PRELOAD"),
    *(HOROVOD_VARIABLE, "MPI4PY_LIBMPI", "OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX", "PMIX_INSTALL_PREFIX"),
    *(
        f"{runtime.upper()}_{name}"
        for runtime in RUNTIMES
        for name in ("CLEANENV", "CONTAIN", "CONTAINALL", "NO_MOUNT")
    ),
)
# The image sets these itself, unless they are named for it.
_SET_BY_THE_IMAGE = ("PATH", "LD_LIBRARY_PATH", *_OF_THE_HOST)
# $1 is the image, the rest what `exec` gets. --nv prints a warning where there is no GPU, so it is left out there.
_SCRIPT = f"""
image=$1
shift
runtime=$(command -v {RUNTIMES[0]} || command -v {RUNTIMES[1]}) || exit {NO_RUNTIME}
[ -e "$image" ] || exit {NO_IMAGE}
unset {" ".join(_OF_THE_HOST)}
for folder in "$TMPDIR" "$PMIX_SERVER_TMPDIR"; do
    [ -d "$folder" ] && set -- --bind "$folder" "$@"
done
[ -e /dev/nvidiactl ] && set -- --nv "$@"
exec "$runtime" --silent exec "$@"
"""


def checked_image(image: str) -> str:
    """Return the path of an image, which is to be the same on every host.

    Raises:
        InvalidInput: it is none.
    """
    path = Path(image).expanduser().absolute()
    if not path.exists():
        remedy = (
            f"Fetch it once: apptainer pull {image}"
            if "://" in image
            else "Correct its path, or build it (containers/)."
        )
        raise InvalidInput("--container names an image that is here: a .sif file, or a folder.", image, remedy)
    if any(mark in str(path) for mark in ",:"):
        raise InvalidInput("The path of an image has no comma and no colon.", str(path), "Move it.")
    return str(path)


def module_in_image(image: str, folders: Iterable[Path], module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the image's jupyter_ddl in it, on the host that it is called on.

    Args:
        image: its path there.
        folders: what must be seen in it besides what Apptainer shows: the home, `/tmp` and the devices.
        module: its name.
        arguments: for it.

    Raises:
        InvalidInput: a folder cannot be named to Apptainer.
    """
    return in_image(image, folders, module_of_image(module, *arguments))


def module_of_image(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the image's jupyter_ddl, for a process that is in it."""
    return ["python3", "-c", _PROGRAM, module, *arguments]


def in_image(image: str, folders: Iterable[Path], program: Sequence[str]) -> list[str]:
    """Return the command that runs a program in an image, on the host that it is called on.

    Args:
        image: its path there.
        folders: as `module_in_image` takes them.
        program: with its arguments.

    Raises:
        InvalidInput: a folder cannot be named to Apptainer.
    """
    shown = _outermost({*folders, Path.cwd()})
    binds = [part for folder in shown for part in ("--bind", str(folder))]
    return ["/bin/sh", "-c", _SCRIPT, "jupyter_ddl image", image, *binds, "--pwd", str(Path.cwd()), image, *program]


def variables_for_image(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which the image gets those of `--env` that it would else set itself, or not get."""
    runtime = next((name for name in RUNTIMES if shutil.which(name)), RUNTIMES[0])
    return {f"{runtime.upper()}ENV_{name}": own[name] for name in _SET_BY_THE_IMAGE if name in own}


def without_paths_of_the_host(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what of a host's variables says something in an image too: not where the host's programs lie."""
    return {name: value for name, value in variables.items() if name not in _SET_BY_THE_IMAGE}


def script_in_image(image: str, script: str) -> str:
    """Return a script for a host that runs another one there in the image that this process is in.

    What was bound into this container is bound there too, where the host has it by the name that it has here: within a
    container only that name is known.
    """
    command = in_image(image, [], ["/bin/sh", "-c", script])
    at = command.index(image) + 1
    bound = (os.environ.get(f"{runtime.upper()}_BIND", "") for runtime in RUNTIMES)
    names = dict.fromkeys(name for listed in bound for name in listed.split(",") if name)
    return (
        f"set --\nfor folder in {shlex.join(names)}; do\n"
        '[ -e "$folder" ] && set -- "$@" --bind "$folder"\ndone\n'
        f'exec {shlex.join(command[:at])} "$@" {shlex.join(command[at:])}'
    )


def set_for_images(variables: Mapping[str, str]) -> list[str]:
    """Return the names of the variables by which a user set Apptainer up, such as APPTAINER_BIND; but for secrets."""
    starts = tuple(f"{runtime.upper()}{kind}" for runtime in RUNTIMES for kind in ("_", "ENV_"))
    return [name for name in forwarded_names(variables, {}) if name.startswith(starts)]


def image_here(variables: Mapping[str, str] | None = None) -> str | None:
    """Return the image that this process is in; None outside of one of Apptainer's or Singularity's."""
    variables = os.environ if variables is None else variables
    return next((found for name in RUNTIMES if (found := variables.get(f"{name.upper()}_CONTAINER"))), None)


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that are in no other one of them, but for those that do not exist, and the root."""
    real = sorted(folder for folder in folders if folder.is_dir() and folder.parent != folder)
    for folder in real:
        if any(mark in str(folder) for mark in ",:"):
            raise InvalidInput(
                "A folder that an image shows has no comma and no colon in its name.",
                str(folder),
                "Apptainer separates folders by them: work in another one.",
            )
    return [folder for folder in real if not any(other in folder.parents for other in real)]
