"""The MPI of an image is compared with the host's: by a start, which refuses, and by the doctor."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import jupyter_ddl
from jupyter_ddl.doctor.images import check_images, images_of_profiles
from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.host.mpi import Mpi, find_mpi
from jupyter_ddl.launch.image_mpi import MpiVersions, check_goes_together, clash_between, versions_of

HERE = MpiVersions("openmpi", "5.0.11", "5.0.8")
# In Apptainer's place: runs the program with this Python, as if the image were this environment.
RUNS = f"""#!{sys.executable}
import os, sys
os.environ["PYTHONPATH"] = {str(Path(jupyter_ddl.__file__).parents[1])!r}
{{change}}
os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[sys.argv.index("python3") + 1:]])
"""


@pytest.mark.parametrize(
    "inside",
    [
        HERE,
        MpiVersions("openmpi", "5.0.5", "5.0.3"),
        # It hides its PMIx.
        MpiVersions("openmpi", "5.0.0"),
        MpiVersions("openmpi", "5.0.0", "4.2.9"),
        MpiVersions("openmpi", "5.0.0", "3.0.0"),
        MpiVersions("openmpi", "5.0.0", "2.1.1"),
        MpiVersions("openmpi", "5.0.0", "2.0.3"),
    ],
)
def test_what_goes_together(inside: MpiVersions) -> None:
    assert clash_between("/x.sif", inside, HERE) is None
    check_goes_together("/x.sif", inside, HERE)


def test_an_image_whose_mpi_is_not_known_is_tried() -> None:
    check_goes_together("/x.sif", None, HERE)


@pytest.mark.parametrize(
    ("inside", "here", "said"),
    [
        (
            MpiVersions("mpich", "4.2.1"),
            HERE,
            (
                r"must be of the kind that starts its ranks\. Received: mpich 4\.2\.1 in /x\.sif, openmpi 5\.0\.11 "
                r"\(PMIx 5\.0\.8\) here\. Start JupyterLab in the image, .* Or use an image with Open MPI\."
            ),
        ),
        (HERE, MpiVersions("intel", "2021.9"), r"Or use an image with MPICH\."),
        (
            MpiVersions("openmpi", "3.0.1", "2.0.1"),
            HERE,
            (
                r"must have versions of PMIx that understand each other\. Received: openmpi 3\.0\.1 \(PMIx 2\.0\.1\) "
                r"in .*Or use a newer Open MPI than 3\.0\.1\."
            ),
        ),
        (HERE, MpiVersions("openmpi", "3.1.0", "2.1.0"), r"a newer Open MPI than 3\.1\.0\."),
        (MpiVersions("openmpi", "2.1.2", "1.2.4"), HERE, r"a newer Open MPI than 2\.1\.2\."),
    ],
)
def test_what_does_not_is_refused_with_both_versions_and_the_remedy(
    inside: MpiVersions, here: MpiVersions, said: str
) -> None:
    with pytest.raises(HostUnfit, match=said):
        check_goes_together("/x.sif", inside, here)


def test_two_mpis_of_the_same_family_or_version_are_let_through() -> None:
    check_goes_together("/x.sif", MpiVersions("mpich", "4.2.1"), MpiVersions("intel", "2021.9"))
    old = MpiVersions("openmpi", "3.0.1", "2.0.1")
    check_goes_together("/x.sif", old, old)


def test_another_major_version_of_open_mpi_is_a_note_and_no_refusal() -> None:
    inside = MpiVersions("openmpi", "4.1.6", "3.2.4")
    check_goes_together("/x.sif", inside, HERE)
    clash = clash_between("/x.sif", inside, HERE)
    assert clash is not None
    assert not clash.is_certain
    assert clash.remedy.startswith("If they do not come up: start JupyterLab in the image")


def test_the_versions_of_this_environment() -> None:
    found = find_mpi()
    said = versions_of(found)
    assert (said.flavour, said.version) == (found.flavour, found.version)
    if found.flavour == "openmpi" and found.version.startswith("5"):
        assert said.pmix is not None
        assert said.pmix[0].isdigit()


def test_a_library_without_pmix_has_no_version_of_it(tmp_path: Path) -> None:
    for library in (None, tmp_path / "libmpi.so"):
        assert versions_of(Mpi(Path("/mpiexec"), None, "mpich", "4.2", "system", library)).pmix is None


def image(folder: Path, monkeypatch: pytest.MonkeyPatch, change: str = "") -> str:
    """Make an image, with a program in Apptainer's place; return its path."""
    program = folder / "apptainer"
    program.write_text(RUNS.format(change=change))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "ddl.sif").touch()
    return str(folder / "ddl.sif")


def test_the_doctor_looks_into_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = image(tmp_path, monkeypatch)
    (check,) = check_images([path, path], find_mpi())
    assert check.status == "ok"
    assert check.text.startswith(f"{path}: tensorflow ")
    assert check.facts["image"] == path
    (other,) = check_images([path], Mpi(Path("/mpiexec"), None, "mpich", "4.2.1", "system", None))
    assert other.status == "problem"
    assert "must be of the kind that starts its ranks. Received: openmpi" in other.text
    assert "Start JupyterLab in the image" in other.remedy
    (none,) = check_images([path], InvalidInput("The ranks need an MPI.", "none", "Install one."))
    assert (none.status, none.remedy) == (
        "note",
        "No MPI is here to start its ranks with: start JupyterLab in the image.",
    )


def test_the_doctor_says_what_is_wrong_with_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = image(tmp_path, monkeypatch, 'os.environ["JUPYTER_DDL_MPIEXEC"] = "/no/mpiexec"')
    (check,) = check_images([path], find_mpi())
    assert (check.status, check.text.endswith(", no MPI that works")) == ("problem", True)
    broken = image(tmp_path, monkeypatch, 'sys.exit("FATAL:   no user namespaces")')
    (check,) = check_images([broken], find_mpi())
    assert "must be able to run the image. Received: no user namespaces" in check.text
    (gone,) = check_images([f"{path}.gone"], find_mpi())
    assert "--container names an image that is here" in gone.text


def test_the_images_of_profiles_are_checked_where_they_are_here(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "here.sif").touch()
    profiles = tmp_path / "site.toml"
    assert images_of_profiles((tmp_path,)) == []
    lines = (f"[{name}]\ncontainer = '{tmp_path}/{name}.sif'\n" for name in ("here", "gone"))
    profiles.write_text("".join(lines))
    assert images_of_profiles((tmp_path,)) == [f"{tmp_path}/here.sif"]
    profiles.write_text("no TOML")
    assert images_of_profiles((tmp_path,)) == []
