"""What every test stands on: folders of its own, and no process left behind."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

sys.path.insert(0, str(Path(__file__).parent))

from processes import MARK, described, marked_processes
from servers import Server

LEAK_WAIT_S = 15.0


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what processes that tests start inherit."""
    _signals_as_from_a_terminal()
    # The slow tests show that all works with everything that these processes import.
    if "not slow" in config.option.markexpr:
        _lighter_imports()


def _signals_as_from_a_terminal() -> None:
    """Give what tests start the signals as a terminal gives them.

    Under nohup SIGHUP is ignored, in a shell's background SIGINT, and every process started there would inherit that. A
    handler of our own is not inherited, and keeps the tests themselves going.
    """
    for signum, handler in ((signal.SIGHUP, lambda *_: None), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, handler)


def _lighter_imports() -> None:
    """Put lighter/ into PYTHONPATH. Of pytest's own processes it reaches those of xdist, which start later."""
    folder = str(Path(__file__).with_name("lighter"))
    there = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in there:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*there, folder]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell with each failure what ran just then: what hung is gone when somebody reads of it."""
    report = yield
    if report.failed:
        report.sections.append(("Processes", described()))
        report.sections.extend(("A server", told) for told in _servers(item))
    return report


def _servers(item: pytest.Item) -> Iterator[str]:
    """Yield what each server of a test's wrote last, and how it ended if it has."""
    for value in getattr(item, "funcargs", {}).values():
        server = getattr(value, "server", value)
        if isinstance(server, Server) and (told := server.told()):
            yield told


@pytest.fixture(scope="session", autouse=True)
def own_folders() -> Iterator[None]:
    """Keep the tests' clusters and runs out of the user's, on a short path (unix sockets have a limit)."""
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder:
        names = {"JUPYTER_DDL_RUNTIME": "runtime", "JUPYTER_DDL_RUNS": "runs"}
        before = {name: os.environ.get(name) for name in names}
        os.environ.update({name: f"{folder}/{sub}" for name, sub in names.items()})
        # Each would take cores from the tests beside it; those of test_standby.py ask for them.
        os.environ.setdefault("JUPYTER_DDL_STANDBY", "never")
        yield
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="session", autouse=True)
def no_leaked_process(own_folders: None) -> Iterator[None]:
    """Fail the session if a process that it started, or that those started, outlives it."""
    mark = f"ddl-tests-{os.getpid()}"
    os.environ[MARK] = mark
    yield
    leaked = marked_processes(mark)
    _, alive = psutil.wait_procs(leaked, timeout=LEAK_WAIT_S)
    told = [f"{process.pid}: {' '.join(_command(process))}" for process in alive]
    assert not told, "Processes outlived the tests:\n" + "\n".join(told)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
