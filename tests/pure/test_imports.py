"""Imports point one way, and importing jupyter_ddl in a kernel loads nothing heavy.

MAY_IMPORT is the rule, one row for each folder and each module at the root. Imports inside functions and under
TYPE_CHECKING count like all others.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import jupyter_ddl

PACKAGE = Path(jupyter_ddl.__file__).parent
MODULES_AT_THE_ROOT = 8
# Who -> the folders and root modules of jupyter_ddl that it may import besides itself, in the order of the layers: a
# row names only rows above it.
MAY_IMPORT: dict[str, set[str]] = {
    # What every process reads.
    "errors": set(),
    "paths": {"errors"},
    "protocol": {"errors"},
    "host": {"errors", "paths", "protocol"},
    # Ranks.
    "engine": {"errors", "host", "paths", "protocol"},
    # What replaces a method of a library does so by the register of patches in `host`.
    "legacy": {"engine", "errors", "host", "paths", "protocol"},
    "datasets": {"engine", "errors", "host", "paths"},
    "horovod_api": {"engine", "errors"},
    "training": {"engine", "errors", "horovod_api", "host", "protocol"},
    "pipelines": {"engine", "errors", "host", "protocol", "training"},
    "memory": {"engine", "errors", "host", "paths", "protocol", "training"},
    "checkpoints": {"engine", "errors", "host", "memory", "protocol", "training"},
    "torch_training": {"engine", "errors", "host", "protocol"},
    "jax_training": {"engine", "errors", "host", "protocol", "training"},
    "ml": {"engine", "errors", "host", "paths", "protocol"},
    "auto_distribution": {"engine", "errors", "host", "memory", "pipelines", "protocol", "training"},
    "ibm_ddl": {"auto_distribution", "engine", "errors", "host", "legacy", "protocol", "training"},
    # Programs of ranks, that import Horovod, TensorFlow and Keras as users' programs do.
    "strategies": {"errors", "host", "paths"},
    "scaling_program": {"engine", "errors", "strategies", "training"},
    # The composition root of a rank's process, the only folder that knows all layers of ranks.
    "rank": {
        "auto_distribution",
        "checkpoints",
        "datasets",
        "engine",
        "errors",
        "horovod_api",
        "host",
        "ibm_ddl",
        "jax_training",
        "legacy",
        "memory",
        "ml",
        "paths",
        "pipelines",
        "protocol",
        "torch_training",
        "training",
    },
    # Kernel, lease, Jupyter server and terminal.
    "runs": {"errors", "host", "paths", "protocol"},
    "views": {"errors", "protocol"},
    # It reads a file, of a run or of the user's.
    "timeline": {"errors", "host", "protocol"},
    # TensorBoard's process, and what the server and a terminal ask of it.
    "tensorboard": {"errors", "host", "protocol", "runs"},
    # How an MPI job gets onto hosts.
    "launch": {"errors", "host", "paths", "protocol"},
    # It starts `jupyter ddl run`, as a user does.
    "scaling": {"errors", "host", "protocol"},
    # Its errors say a fault as every view says it.
    "cluster": {"errors", "host", "launch", "paths", "protocol", "views"},
    "commands": {"errors", "launch", "protocol", "runs", "timeline", "views"},
    # A job of a notebook is one that brings ranks, with the notebook beside.
    "export": {"cluster", "errors", "host", "launch", "paths", "protocol", "runs", "views"},
    "horovod_build": {"errors", "host", "paths", "protocol"},
    # It lists the clusters that run.
    "doctor": {"cluster", "errors", "horovod_build", "host", "launch", "paths", "protocol", "views"},
    "support": {"cluster", "commands", "errors", "host", "paths", "protocol", "runs", "views"},
    # What a server, and a terminal, show of all clusters.
    "oversight": {"cluster", "errors", "host", "paths", "protocol", "runs"},
    # It examines its host, and makes the file for support, where a page asks for it.
    "server": {
        "cluster",
        "doctor",
        "errors",
        "export",
        "host",
        "launch",
        "oversight",
        "paths",
        "protocol",
        "runs",
        "support",
        "tensorboard",
        "timeline",
        "views",
    },
    # The old spellings are data that ranks read too, so they lie in protocol and not in legacy.
    "modernise": {"errors", "protocol"},
    # The course's notebooks, and what a server has for those who take it.
    "course": {"errors", "host", "protocol"},
    # Both rewrite programs with libcst, and explain uses the names and magic lines that modernise finds.
    "explain": {"errors", "modernise", "protocol"},
    "kernel": {
        "cluster",
        "commands",
        "doctor",
        "errors",
        "explain",
        "host",
        "launch",
        "paths",
        "protocol",
        "runs",
        "views",
    },
    # A script is released by the rules of a cell.
    "script": {"cluster", "errors", "host", "kernel", "launch", "paths", "protocol", "runs", "views"},
    "cli": {
        "cluster",
        "commands",
        "course",
        "doctor",
        "errors",
        "explain",
        "export",
        "horovod_build",
        "host",
        "launch",
        "modernise",
        "oversight",
        "paths",
        "protocol",
        "runs",
        "scaling",
        "script",
        "support",
        "tensorboard",
    },
    # Public faces. __init__ names what kernels and what ranks use, and imports either only when it is asked for.
    "data": {"auto_distribution", "pipelines"},
    "keras": {"errors", "horovod_api", "rank", "training"},
    "torch": {"checkpoints"},
    "__init__": {"engine", "kernel", "rank"},
}
KERNEL_SIDE = {
    "cli",
    "cluster",
    "commands",
    "course",
    "doctor",
    "explain",
    "export",
    "horovod_build",
    "kernel",
    "launch",
    "modernise",
    "oversight",
    "runs",
    "scaling",
    "script",
    "server",
    "support",
    "tensorboard",
    "timeline",
    "views",
}
RANK_SIDE = {
    "auto_distribution",
    "torch_training",
    "jax_training",
    "checkpoints",
    "data",
    "datasets",
    "engine",
    "horovod_api",
    "ibm_ddl",
    "keras",
    "legacy",
    "memory",
    "ml",
    "pipelines",
    "rank",
    "scaling_program",
    "strategies",
    "torch",
    "training",
}
# Within the shared folders, what is not for a part's process.
_ONLY_FOR_KERNELS = {"host.interrupts", "host.process_tree", "host.threads"}
NOT_FOR = {
    "engine": {
        "host.interrupts",
        "host.mpi",
        "host.mpi_library",
        "host.threads",
        "protocol.checkpoint_folder",
        "protocol.hub_messages",
        "protocol.sample_means",
    },
    "legacy": {f"protocol.{file.stem}" for file in (PACKAGE / "protocol").glob("*.py")} - {"protocol.old_spellings"},
    "runs": _ONLY_FOR_KERNELS,
    "server": _ONLY_FOR_KERNELS,
}
HEAVY = ("tensorflow", "keras", "horovod", "mpi4py", "pynvml")


def name_of(file: Path) -> str:
    """Return a module's name without the package's; the root's own is "__init__"."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {name_of(file): file for file in PACKAGE.rglob("*.py")}
PARTS = {name.split(".")[0] for name in FILES}


@cache
def imports_of(module: str) -> frozenset[str]:
    """Return the modules of jupyter_ddl that a module imports, anywhere in it; the root itself is left out."""
    imported = set[str]()
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            # What is imported from a folder is a module in it, or a name that its __init__ has.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if name.removeprefix("jupyter_ddl.") in FILES else str(node.module) for name in names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        imported |= {name.removeprefix("jupyter_ddl.") for name in found if name.startswith("jupyter_ddl.")}
    return frozenset(imported)


def modules_imported_by(part: str) -> set[str]:
    """Return the modules that a folder or root module imports."""
    return set[str]().union(*(imports_of(module) for module in FILES if module.split(".")[0] == part))


def parts_imported_by(part: str) -> set[str]:
    """Return the folders and root modules that a folder or root module imports, besides itself."""
    return {name.split(".")[0] for name in modules_imported_by(part)} - {part}


def test_every_folder_and_module_at_the_root_has_a_row() -> None:
    assert set(MAY_IMPORT) == PARTS


def test_few_modules_lie_at_the_root() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MODULES_AT_THE_ROOT


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_what_its_row_says(part: str) -> None:
    assert parts_imported_by(part) <= MAY_IMPORT[part]


def test_a_row_names_only_rows_above_it() -> None:
    above = set[str]()
    for part, imported in MAY_IMPORT.items():
        assert imported <= above, part
        above.add(part)


def test_no_module_imports_itself_through_others() -> None:
    try:
        TopologicalSorter({module: imports_of(module) for module in FILES}).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_sides_do_not_import_each_other() -> None:
    shared = {"errors", "paths", "protocol", "host"}
    assert KERNEL_SIDE | RANK_SIDE | shared | {"__init__"} == set(MAY_IMPORT)
    assert not KERNEL_SIDE & RANK_SIDE
    for part in KERNEL_SIDE:
        assert not MAY_IMPORT[part] & RANK_SIDE, part
    for part in RANK_SIDE:
        assert not MAY_IMPORT[part] & KERNEL_SIDE, part
    for part in shared:
        assert MAY_IMPORT[part] <= shared, part


@pytest.mark.parametrize("part", NOT_FOR)
def test_a_part_leaves_alone_what_is_not_for_its_process(part: str) -> None:
    assert not modules_imported_by(part) & NOT_FOR[part]


def test_views_read_events_and_nothing_else() -> None:
    assert parts_imported_by("views") <= {"errors", "protocol"}
    # An event carries a fault; the others are what events are made of, and how they are written.
    read = {"codec", "events", "exit_statuses", "faults", "rank_sets", "sample_means", "cell_frames", "host_topology"}
    read |= {"number_texts", "aligned_rows", "rank_answers", "rank_life", "readings"}
    imported = {name for name in modules_imported_by("views") if name.startswith("protocol")}
    assert imported <= {f"protocol.{name}" for name in read}


def test_cluster_and_runs_do_not_know_each_other() -> None:
    assert "runs" not in parts_imported_by("cluster")
    assert "cluster" not in parts_imported_by("runs")


# Imported one after another in one process: none loads what is heavy, and the server comes before the kernel's.
IMPORTED = (
    "jupyter_ddl",
    "jupyter_ddl.server.extension",
    "jupyter_ddl.kernel.session",
    "jupyter_ddl.kernel.magics.distributed",
)
LOADED = f"""
import importlib, json, sys
loaded = {{}}
for module in {IMPORTED}:
    importlib.import_module(module)
    loaded[module] = [name for name in (*{HEAVY}, "jupyter_ddl.kernel.session") if name in sys.modules]
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Return what of interest was loaded after each import."""
    child = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, list[str]] = json.loads(child.stdout)
    return found


@pytest.mark.parametrize("module", IMPORTED)
def test_importing_it_loads_nothing_heavy(loaded: dict[str, list[str]], module: str) -> None:
    assert not set(loaded[module]) & set(HEAVY)


def test_the_server_knows_no_session(loaded: dict[str, list[str]]) -> None:
    assert "jupyter_ddl.kernel.session" not in loaded["jupyter_ddl.server.extension"]
    assert "jupyter_ddl.kernel.session" in loaded["jupyter_ddl.kernel.session"]
