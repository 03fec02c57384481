"""oneCCL is found where its module, its wheel or Intel's installer has it; a library that does not load is named."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from horovod_targets import make_horovod, make_target

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build import ccl
from jupyter_ddl.horovod_build.builder import _reason_to_keep
from jupyter_ddl.horovod_build.wheel import build_variables


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder as a module of oneCCL's sets it, with a library that loads."""
    (tmp_path / "include" / "oneapi").mkdir(parents=True)
    (tmp_path / "include" / "oneapi" / "ccl.hpp").touch()
    (tmp_path / "lib").mkdir()
    compile_library(tmp_path / "lib" / "libccl.so")
    monkeypatch.setenv("CCL_ROOT", str(tmp_path))
    return tmp_path


def compile_library(file: Path, *options: str) -> None:
    compiler = shutil.which("cc") or shutil.which("c++")
    assert compiler, "a compiler is what all machines that build need"
    command = [compiler, "-shared", "-o", str(file), "-x", "c", "/dev/null", *options]
    subprocess.run(command, check=True, timeout=60)


def test_mpi_asks_for_none_of_it() -> None:
    assert ccl.choose_ccl("mpi") == (None, "")


def test_a_module_is_found_and_its_library_is_loaded(root: Path) -> None:
    found, text = ccl.choose_ccl("ccl")
    assert found == ccl.Ccl(root, root / "lib" / "libccl.so")
    assert text == f"oneCCL on CPUs, of {root}"


def test_none_at_all_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCL_ROOT", str(tmp_path))
    with pytest.raises(BuildError, match=rf"no include/oneapi/ccl\.hpp with lib/libccl\.so in {tmp_path}\. Run: pip"):
        ccl.choose_ccl("ccl")


def test_a_library_that_lacks_another_is_named_with_it(root: Path) -> None:
    # As the wheels from 2021.16 on: they ask for a libccl.so.2 that is not in them.
    second = root / "libccl.so.2"
    compile_library(second, "-Wl,-soname,libccl.so.2")
    options = ("-Wl,--no-as-needed", f"-L{root}", "-l:libccl.so.2")
    compile_library(root / "lib" / "libccl.so", *options)
    second.unlink()
    with pytest.raises(BuildError, match=r"lib/libccl\.so: libccl\.so\.2: cannot open shared object file.*2021\.15\.2"):
        ccl.choose_ccl("ccl")


def test_a_build_with_it_has_a_name_of_its_own(root: Path) -> None:
    plain = make_target()
    target = replace(plain, ccl=ccl.Ccl(root, root / "lib" / "libccl.so"))
    assert "ccl" not in plain.describe()
    assert target.key != plain.key
    variables = build_variables(target, Path("mpicxx"), 2)
    assert variables["HOROVOD_CPU_OPERATIONS"] == "CCL"
    assert variables["CCL_ROOT"] == str(root)
    assert "HOROVOD_CPU_OPERATIONS" not in build_variables(plain, Path("mpicxx"), 2)


def test_one_without_it_is_replaced_where_it_is_asked_for() -> None:
    without = make_horovod()
    assert _reason_to_keep(without, "none", "ccl", nccl_can_be_built=False) is None
    assert _reason_to_keep(without, "none", "mpi", nccl_can_be_built=False) == "it has no NCCL"
    assert _reason_to_keep(replace(without, ccl=True), "none", "ccl", nccl_can_be_built=False) == "it has no NCCL"
