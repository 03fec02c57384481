"""Runs an exported notebook in its job, and keeps it with its outputs, whatever ends it.

Runs on: the job's first node, in a process of its own; the notebook's kernel is a child of it.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from jupyter_ddl import paths
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export import results
from jupyter_ddl.export.order import NOTEBOOK
from jupyter_ddl.protocol.codec import as_json
from jupyter_ddl.protocol.exported_job import ExportedJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from jupyter_ddl.export.order import ExportFolder, ExportOrder

# As in shells: 128 plus the number of the signal that ended a process.
_SIGNALLED = 128
_FAILED = 1
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def check_runner() -> None:
    """Check that papermill, which runs an exported notebook, is in this environment.

    Raises:
        InvalidInput: it is not.
    """
    if importlib.util.find_spec("papermill") is None:
        raise InvalidInput(
            "An exported notebook is run by papermill.",
            "an environment without it",
            "Install it: pip install 'jupyter_ddl[export]'",
        )


class _Ended(BaseException):
    """A signal asks us to end: scancel, or the end of the wall time."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def execute(folder: ExportFolder, point: int, hostfile: str | None = None) -> int:
    """Run the notebook of an export; return the exit status.

    Args:
        folder: of the export.
        point: of its sweep; 0 without one.
        hostfile: where the hosts of the ranks are listed; None for those of the job that this process is in.

    Raises:
        InvalidInput: the folder is none of an export, its sweep has no such point, or there is no papermill.
    """
    check_runner()
    order = folder.order()
    if not 0 <= point < len(order.points):
        raise InvalidInput(
            f"The sweep of {folder.path} has the points 0 to {len(order.points) - 1}.", f"point {point}", "Name one."
        )
    began_at_s, began_s, suffix = time.time(), time.monotonic(), secrets.token_hex(3)
    os.environ[paths.EXPORT_VARIABLE] = as_json(ExportedJob(order.ranks, suffix, hostfile)).decode()
    os.environ[paths.RUNS_VARIABLE] = order.runs
    state, status, error = _run(folder, order, point)
    result = results.Result(point, order.points[point], state, time.monotonic() - began_s, error, suffix)
    results.write(folder, order, results.with_runs(result, began_at_s))
    return status


def _run(folder: ExportFolder, order: ExportOrder, point: int) -> tuple[results.State, int, str]:
    """Run the notebook; return what came of it, the exit status, and the error of the cell that failed."""
    import papermill
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    from jupyter_ddl.export.runner import register

    try:
        with _signals_end():
            papermill.execute_notebook(
                folder.path / NOTEBOOK,
                folder.executed(order, point),
                parameters=order.points[point],
                kernel_name="python3",
                cwd=order.working_folder,
                progress_bar=False,
                engine_name=register(),
            )
    except PapermillExecutionError as error:
        return _failed(f"{error.ename}: {error.evalue}")
    except DeadKernelError as error:
        return _failed(f"The notebook's kernel must live to the end. Received: {error}")
    except NoSuchKernel:
        remedy = "Run: python -m ipykernel install --sys-prefix"
        return _failed(f"The job's environment must have a kernel named python3. Received: none. {remedy}")
    except _Ended as ended:
        name = signal.Signals(ended.signum).name
        print(f"Ended by {name}.", file=sys.stderr)
        return "stopped", _SIGNALLED + ended.signum, name
    return "finished", 0, ""


def _failed(error: str) -> tuple[results.State, int, str]:
    print(error, file=sys.stderr)
    return "failed", _FAILED, error


@contextmanager
def _signals_end() -> Iterator[None]:
    """Let the first signal that asks us to end unwind what runs, so that the kernel is ended and the notebook saved."""

    def end(signum: int, _frame: FrameType | None) -> NoReturn:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(signum)

    before = {signum: signal.signal(signum, end) for signum in _ENDING}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
