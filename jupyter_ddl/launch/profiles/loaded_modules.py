"""Finds the variables that `module load` and lines of setup change, by a login shell that runs them.

The shell prints its variables before and after: what its own start-up files do is no change. Where a line puts
something in front of a path or behind it, the same is put around this process's path, which may be another one than
the login's (a virtual environment's).

Runs on: kernel, a terminal.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.on_host import asking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

    from jupyter_ddl.launch.profiles.profile import Named

TIMEOUT_S = 60.0
_MARK = "jupyter_ddl variables"
# The shell's own, and what a rank has of itself.
_NOT_CARRIED = {"_", "SHLVL", "PWD", "OLDPWD", "CUDA_VISIBLE_DEVICES"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def setup_lines(named: Named) -> tuple[str, ...]:
    """Return the lines of shell that load a profile's modules and set it up, for a script or a shell."""
    loads = (f"module load {shlex.quote(module)}" for module in named.profile.modules)
    return (*loads, *named.profile.setup)


def loaded_variables(named: Named, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Return the variables that a profile's modules and setup give the ranks.

    Args:
        named: the profile.
        timeout_s: how long the shell may take.

    Raises:
        InvalidInput: a line fails, or does not end; the error has the shell's own words.
    """
    lines = setup_lines(named)
    if not lines:
        return {}
    script = "\n".join((_printing(1), *(f"{line} || exit" for line in lines), _printing(2)))
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            with asking(["bash", "-lc", script], output, errors) as shell:
                status = shell.wait(timeout_s)
        except FileNotFoundError as error:
            raise _failed(named, lines, "there is no bash here") from error
        except subprocess.TimeoutExpired as error:
            raise _failed(named, lines, f"no end within {timeout_s:g} s") from error
        printed, said = (_text_of(file) for file in (output, errors))
    parts = re.split(rf"\0{_MARK} [12]\0", printed)
    if status or len(parts) != 3:
        last = said.strip().splitlines()[-1:] or [f"status {status}"]
        raise _failed(named, lines, last[0][:500])
    before, after = _variables(parts[1]), _variables(parts[2])
    if unloaded := _silently_failed(said):
        raise _failed(named, lines, unloaded)
    return changed(before, after, os.environ)


def changed(before: Mapping[str, str], after: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return what a process with the variables `own` must set to have what a shell changed.

    Args:
        before: the shell's variables before its lines.
        after: and after them.
        own: the process's.
    """
    return {
        name: _applied(before.get(name, ""), value, own.get(name, ""))
        for name, value in after.items()
        if value != before.get(name) and name not in _NOT_CARRIED and _NAME.fullmatch(name)
    }


def _applied(before: str, after: str, own: str) -> str:
    if not before or before not in after:
        # New, or replaced: but what this process has of a path stays behind what was added to none.
        return f"{after}:{own}" if not before and own and own != after and "/" in own and "/" in after else after
    front, _, behind = after.partition(before)
    return f"{front}{own}{behind}" if own else f"{front}{behind}".strip(":")


def _printing(number: int) -> str:
    # env -0 ends each variable with a zero byte; a value may have several lines.
    return f"printf '\\0{_MARK} {number}\\0'; env -0"


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="surrogateescape")


def _variables(text: str) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def _silently_failed(said: str) -> str | None:
    """Return the line by which Environment Modules 3 reports an unknown module, with status 0.

    Source: modules.sourceforge.net, release 3.2: "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile".
    """
    return next((line[:500] for line in said.splitlines() if re.search(r":ERROR:\d+:", line)), None)


def _failed(named: Named, lines: Sequence[str], said: str) -> InvalidInput:
    shown = "; ".join(lines)[:300]
    return InvalidInput(
        f"The modules and the setup of the profile {named.name} must work in a login shell.",
        said,
        f"Try in a terminal: bash -lc {shlex.quote(shown)}. They stand in {named.file}.",
    )
