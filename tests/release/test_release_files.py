"""What a release's files hold, and that the same source gives the same wheel."""

from __future__ import annotations

import email
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from environments import BUILT, ROOT, Environment
from packaging.version import Version

import jupyter_ddl

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]
NOT_SOURCE = ("built", "lib", "node_modules")
STATIC = "labextension/built/static/"
SHARED = ".data/data/share/jupyter/labextensions/jupyter-ddl/static/"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def wheel_of(sdist: Path, folder: Path, mode: int, seconds: int, builder: Environment) -> Path:
    """Unpack an sdist into a folder, with that mode and time on each of its files, and build its wheel."""
    with tarfile.open(sdist) as archive:
        # Python 3.10 and 3.11 have the filter from 3.10.12 and 3.11.4 on, and no argument of that name before.
        # Source: https://docs.python.org/3/library/tarfile.html#supporting-older-python-versions
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)
    (source,) = folder.iterdir()
    for file in filter(os.path.isfile, source.rglob("*")):
        file.chmod(mode)
        os.utime(file, (seconds, seconds))
    builder.run("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(source))
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def test_one_source_gives_one_wheel_in_any_folder_at_any_time(
    sdist: Path, wheel: Path, builder: Environment, tmp_path: Path
) -> None:
    first = wheel_of(sdist, tmp_path / "first", 0o600, 1_000_000_000, builder)
    second = wheel_of(sdist, tmp_path / "a" / "second", 0o644, 1_700_000_000, builder)
    assert digest(first) == digest(second) == digest(wheel)


@pytest.fixture
def panel_source() -> Iterator[Path]:
    """The folder of a copy of what npm builds from, its packages included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "further" / "below"
        shutil.copytree(ROOT / "labextension", folder / "labextension", ignore=shutil.ignore_patterns(*NOT_SOURCE))
        # A link would lead out of the folder.
        packages = (ROOT / "labextension" / "node_modules").resolve()
        shutil.copytree(packages, folder / "labextension" / "node_modules", symlinks=True)
        shutil.copy2(ROOT / "NOTICE", folder)
        yield folder


def npm_build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the dashboard and the panel in a folder."""
    command = ["npm", "run", "--silent", "build"]
    return subprocess.run(command, cwd=folder / "labextension", capture_output=True, text=True, check=False)


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file that npm built, by its path."""
    files = [file for name in BUILT for file in (folder / name).rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): digest(file) for file in files}


@pytest.mark.skipif(not shutil.which("npm"), reason="it takes npm, with which a release's panel is built")
def test_npm_builds_the_same_panel_in_any_folder(panel_source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.move(panel_source, other)
    assert npm_build(other).returncode == 0
    once = digests(other)
    panel_source.parent.mkdir(exist_ok=True)
    shutil.move(other, panel_source)
    assert npm_build(panel_source).returncode == 0
    assert digests(panel_source) == once
    assert {"labextension/built/package.json", "jupyter_ddl/views/static/dashboard.js"} <= set(once)


@pytest.mark.skipif(not shutil.which("npm"), reason="it takes npm, with which a release's panel is built")
def test_npm_builds_nothing_that_the_notice_does_not_name(panel_source: Path) -> None:
    notice = (ROOT / "NOTICE").read_text()
    (panel_source / "NOTICE").write_text(notice.replace("uplot ", "another "))
    done = npm_build(panel_source)
    assert done.returncode != 0
    assert "NOTICE must name what is bundled, with its version and licence." in done.stderr


def test_the_sdist_holds_what_npm_built(sdist: Path, wheel: Path) -> None:
    with tarfile.open(sdist) as archive:
        panel = {name.partition(STATIC)[2] for name in archive.getnames() if STATIC in name}
        dashboard = [name for name in archive.getnames() if name.endswith("views/static/dashboard.js")]
    with zipfile.ZipFile(wheel) as archive:
        installed = {name.partition(SHARED)[2] for name in archive.namelist() if SHARED in name}
    assert panel == installed
    assert any(name.startswith("remoteEntry.") for name in panel)
    assert len(dashboard) == 1


def test_the_wheel_says_its_version_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        fields = email.message_from_bytes(archive.read(metadata))
        notice = archive.read(metadata.replace("METADATA", "licenses/NOTICE")).decode()
        materials = archive.read(metadata.replace("METADATA", "sboms/sbom.cdx.json"))
    assert Version(fields["Version"]) == Version(jupyter_ddl.__version__)
    assert fields["License-Expression"] == "BSD-3-Clause"
    assert fields.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert "uplot 1." in notice
    assert materials == (ROOT / "sbom.cdx.json").read_bytes()
    assert fields["Requires-Python"] == "<3.14,>=3.10"


@pytest.mark.parametrize(("folder", "kinds"), [("notebooks", {".ipynb"}), ("docs", {".md", ".png", ".svg", ".toml"})])
def test_the_wheel_holds_the_courses_notebooks_and_the_pages_that_they_link(
    wheel: Path, folder: str, kinds: set[str]
) -> None:
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    here = {name for name in listed.stdout.split("\0") if Path(name).suffix in kinds}
    with zipfile.ZipFile(wheel) as archive:
        course = "jupyter_ddl/course/"
        names = {name.removeprefix(course) for name in archive.namelist() if name.startswith(f"{course}{folder}/")}
    assert names == here


RENDER = """
import sys
from rattler_build import RenderConfig, Stage0Recipe, VariantConfig

(rendered,) = Stage0Recipe.from_file(sys.argv[1]).render(VariantConfig(), RenderConfig())
recipe = rendered.recipe.to_dict()
print(recipe["package"]["name"], recipe["package"]["version"])
"""


def test_conda_reads_the_recipe(tools: Path, tmp_path: Path) -> None:
    environment = Environment.made(sys.executable, tmp_path, tools)
    environment.install("py-rattler-build>=0.73")
    told = environment.run("python", "-c", RENDER, str(ROOT / "conda" / "recipe.yaml"))
    assert told.split()[-2:] == ["jupyter_ddl", jupyter_ddl.__version__]
