"""Runs a module of ours as `python -m` does, but without the working folder: `run_module.py MODULE ARGS...`.

`python -m` looks for every module in the working folder first, which is the notebook's: a `random.py`, `json.py` or
`psutil.py` there would be imported in place of the real one by all that a module of ours imports, and its start would
fail. A script has its own folder on `sys.path` instead, and this module removes that again.

PYTHONPATH keeps its effect. `show_working_folder` adds the working folder where cells need it.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):  # -P, PYTHONSAFEPATH: Python 3.11
    # Before anything is imported: it is this folder, whose files.py and mpi.py must not shadow other modules.
    del sys.path[0]

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDERS = ("site-packages", "dist-packages")


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours in a process of its own."""
    return [sys.executable, os.path.abspath(__file__), module, *arguments]  # noqa: PTH100  no pathlib this early


def hide_working_folder() -> None:
    """Prevent imports from the working folder, though it may be on `sys.path`, until `show_working_folder`."""
    # Source: Python's reference, "The Path Based Finder": None stands for a path that nothing can be imported from.
    sys.path_importer_cache[os.getcwd()] = None  # noqa: PTH109


@contextmanager
def without_working_folder() -> Iterator[None]:
    """Prevent imports from the working folder in the block: what we import late is no file beside a notebook."""
    folder = os.getcwd()  # noqa: PTH109
    hide_working_folder()
    try:
        yield
    finally:
        sys.path_importer_cache.pop(folder, None)


def show_working_folder() -> None:
    """Let modules of the working folder be imported as in a notebook: behind Python's own, before installed ones.

    Source: IPython 9, core/shellapp.py, InteractiveShellApp.init_path
    """
    sys.path[:] = [folder for folder in sys.path if folder]
    if not getattr(sys.flags, "safe_path", False):
        places = (at for at, folder in enumerate(sys.path) if os.path.basename(folder) in _FOLDERS)  # noqa: PTH119
        sys.path.insert(next(places, 0), "")
    sys.path_importer_cache.pop(os.getcwd(), None)  # noqa: PTH109


def run() -> None:
    """Run the module that the command line names, with the arguments after it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    is_known = root in sys.path
    if not is_known:
        # A checkout that the kernel found in its working folder: the same version of us, and nothing else there.
        sys.path.insert(0, root)
    import jupyter_ddl  # noqa: F401  its modules are found through it from here on

    if not is_known:
        sys.path.remove(root)

    import runpy

    del sys.argv[0]
    # What `python -m` itself calls (Python 3.10 to 3.14): the public `run_module` would put this module back as
    # `__main__` at the end, when threads and exit handlers of a script may still need theirs.
    runpy._run_module_as_main(sys.argv[0])  # type: ignore[attr-defined]


if __name__ == "__main__":
    run()
