"""Imports point one way, and importing jupyter_ddl in a kernel loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_ddl

PACKAGE = Path(jupyter_ddl.__file__).parent
# Any part may import these.
SHARED = {
    "auto_options",
    "plan_texts",
    "checkpoint_folder",
    "fit_options",
    "errors",
    "events",
    "files",
    "hub_messages",
    "requests",
    "stacks",
    "wire",
    "ranks",
    "rank_exits",
    "paths",
    "cores",
    "mpi",
    "sample_means",
    "surroundings",
    "own_files",
    "private_folders",
    "run_module",
    "process_identity",
    "settled_variables",
}
# Folder -> the other parts of jupyter_ddl that it may import, besides SHARED and itself.
ALLOWED = {
    "cluster": {"tether", "threads", "interruption"},
    "runs": set[str](),
    "views": set[str](),
    "server": {"runs", "views", "cluster"},
    "engine": {"tether", "script"},
    "training": {"engine", "datasets", "downloads", "legacy", "import_hooks"},
    "legacy": set[str](),
}
VIEWS_MAY = {"errors", "events", "wire", "ranks", "sample_means", "stacks", "views"}
TRAINING_MAY = SHARED - {"mpi"} | {"engine", "datasets", "downloads", "legacy", "import_hooks"}
LEGACY_MAY = {"errors"}
ENGINE_MAY = SHARED - {"checkpoint_folder", "hub_messages", "ranks", "mpi", "sample_means"} | {"tether", "script"}
# The composition root of a rank's process, which alone knows both the engine and the training layer.
RANK_ROOT = Path("rank/__main__.py")
RANK_SIDE = {"engine", "training", "keras"}
# Not __init__.py, which names what kernels and what ranks use, and imports either only when it is asked for.
KERNEL_FILES = (
    "session.py",
    "sessions.py",
    "active_runs.py",
    "magics.py",
    "changes.py",
    "completion.py",
    "inspection.py",
    "cluster_state.py",
    "follow.py",
    "conclusion.py",
    "shown.py",
    "threads.py",
    "checkpoint_offer.py",
    "life.py",
    "stack_commands.py",
    "stall_options.py",
    "stall_watch.py",
)
HEAVY = ("tensorflow", "keras", "horovod", "mpi4py", "pynvml")


def imported_parts(file: Path) -> set[str]:
    """Return the parts of jupyter_ddl that a file imports, anywhere in it, type checking included."""
    parts: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        parts |= {name.split(".")[1] for name in names if name.startswith("jupyter_ddl.")}
    return {part for part in parts if (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").is_file()}


def imports_of(folder: str) -> set[str]:
    files = [file for file in (PACKAGE / folder).rglob("*.py") if file.relative_to(PACKAGE) != RANK_ROOT]
    return set[str]().union(*map(imported_parts, files)) - {folder}


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_a_folder_imports_only_what_is_below_it(folder: str) -> None:
    assert imports_of(folder) <= ALLOWED[folder] | SHARED


def test_views_read_events_and_nothing_else() -> None:
    assert imports_of("views") <= VIEWS_MAY


def test_the_rank_side_imports_events_and_errors() -> None:
    assert imports_of("training") <= TRAINING_MAY
    assert imports_of("engine") <= ENGINE_MAY
    assert imports_of("legacy") <= LEGACY_MAY


def test_cluster_and_runs_do_not_know_each_other() -> None:
    assert "runs" not in imports_of("cluster")
    assert "cluster" not in imports_of("runs")


@pytest.mark.parametrize(
    "folder",
    [
        "cluster",
        "runs",
        "views",
        "cli",
        "doctor",
        "horovod_build",
        "hub_link",
        "script",
        "server",
        "modernise",
        "explain",
    ],
)
def test_kernel_folders_do_not_import_what_runs_on_ranks(folder: str) -> None:
    assert not imports_of(folder) & RANK_SIDE


@pytest.mark.parametrize("file", KERNEL_FILES)
def test_kernel_files_do_not_import_what_runs_on_ranks(file: str) -> None:
    assert not imported_parts(PACKAGE / file) & RANK_SIDE


@pytest.mark.parametrize(
    "module",
    [
        "jupyter_ddl",
        "jupyter_ddl.kernel.session",
        "jupyter_ddl.kernel.magics.distributed",
        "jupyter_ddl.server.extension",
    ],
)
def test_importing_it_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert child.stdout == "[]\n"


def test_the_server_knows_no_session() -> None:
    program = "import sys, jupyter_ddl.server.extension; print('jupyter_ddl.kernel.session' in sys.modules)"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert child.stdout == "False\n"
