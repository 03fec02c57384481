"""Finds what to tell of a program's own error: what to write instead, what is to be installed, what CUDA means.

Runs on: every rank.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import BadZipFile

from jupyter_ddl.engine import gpu_errors, run_context
from jupyter_ddl.engine.error_text import attributes_of, chain_of, text_of
from jupyter_ddl.protocol.frameworks import REQUIREMENTS

_OF_FILES = (FileExistsError, FileNotFoundError, BadZipFile)
_ATTRIBUTE = "__jupyter_ddl_advice__"
_PACKAGE = f"{Path(__file__).parents[1]}/"


def add(error: BaseException, text: str) -> None:
    """Show this after an error's traceback."""
    attributes_of(error)[_ATTRIBUTE] = text


def of(error: BaseException) -> str | None:
    """Return what to show after an error's traceback; None for nothing.

    Args:
        error: what the program raised.
    """
    added = attributes_of(error).get(_ATTRIBUTE)
    if added:
        return str(added)
    own = _of_missing(error) or _of_files(error) or _of_processes(error)
    return own or gpu_errors.advice(error, text_of(error))


def leave_out_our_imports(error: BaseException) -> None:
    """End the traceback of a missing framework's import where the program imported a module of ours.

    The module's own imports do not concern the program: the advice names what to install.

    Args:
        error: what the program raised; other errors stay as they are.
    """
    if _of_missing(error) is None:
        return
    trace, last = error.__traceback__, None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def _of_missing(error: BaseException) -> str | None:
    """Return how a framework is installed that a rank's program imports, and that is not there."""
    # An error of the user's may answer nothing about itself.
    package = str(error.name).partition(".")[0] if type(error) is ModuleNotFoundError else ""
    if package == "horovod":
        return "Horovod is not installed where this rank runs. Run: jupyter ddl build-horovod"
    requirement = REQUIREMENTS.get(package)
    if requirement is None:
        return None
    return f"{package} is not installed where this rank runs. Run: {sys.executable} -m pip install '{requirement}'"


def _of_files(error: BaseException) -> str | None:
    """Return the advice for a program under --auto whose ranks all make or remove the same files."""
    running = run_context.current()
    if running is None or running.options.auto is None or running.ranks == 1 or not isinstance(error, _OF_FILES):
        return None
    return (
        "If the program makes or removes this file itself: with --auto every rank runs every line, so another rank may "
        "have made or removed it before; what callbacks write is on rank 0 only. Make a folder with "
        "os.makedirs(path, exist_ok=True). What one rank must do for all (extract, download, write, remove, "
        "tempfile.mkdtemp), put in a function: jupyter_ddl.data.make_once(function) calls it on rank 0, and returns on "
        "all ranks what it returns."
    )


def _of_processes(error: BaseException) -> str | None:
    """Return the advice for a process of torch's that ended before it could say why; None for other errors."""
    if type(error) is RuntimeError:
        told = [text_of(one) for one in chain_of(error)]
        has_ended = told[0].startswith("DataLoader worker") and "exited unexpectedly" in told[0]
        has_ended = has_ended and not any("killed by signal" in text for text in told)
    else:
        # Without an import of torch: one of `mp.spawn` that could not say what it raised.
        has_ended = type(error).__name__ == "ProcessExitedException" and text_of(error).endswith("exit code 1")
    if not has_ended:
        return None
    return (
        "If the process was started by spawn or forkserver, and a cell defines what it runs: such a process imports "
        'that, and no process can import a cell. Its own error, "Can\'t get attribute", is in the output. Write '
        "the definitions into a file, and import them (%%writefile work.py; from work import work), or run the whole "
        'program by %run; or start the process by fork: DataLoader(multiprocessing_context="fork"), '
        'mp.start_processes(work, nprocs=2, start_method="fork").'
    )
