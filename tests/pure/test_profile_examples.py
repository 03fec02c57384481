"""The examples of profiles in the documentation are profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_ddl.launch.profiles.limits import allowed_by
from jupyter_ddl.launch.profiles.reading import read_profiles

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "lsf-jsrun": "lsf",
    "pbs-ramdisk": "pbs",
    "shared-server": "local",
    "slurm-modules": "slurm",
    "workstations": "hosts",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read_and_named_in_the_page(name: str) -> None:
    file = ROOT / "docs" / "profiles" / f"{name}.toml"
    assert {named.profile.launcher for named in read_profiles(file)} == {EXAMPLES[name]}
    assert f"(profiles/{name}.toml)" in (ROOT / "docs" / "hpc-site.md").read_text()


def test_each_example_is_tried() -> None:
    assert {file.stem for file in (ROOT / "docs" / "profiles").iterdir()} == set(EXAMPLES)


def test_a_server_for_a_class_bounds_what_one_learner_takes() -> None:
    (named,) = read_profiles(ROOT / "docs" / "profiles" / "shared-server.toml")
    allowed = allowed_by(named)
    assert named.name == "default"
    assert allowed.memory is not None
    assert allowed.allotment is not None
    assert allowed.clusters == 2
    assert (allowed.ranks, allowed.memory.most_bytes, allowed.allotment.share_bytes) == (2, 8 * 10**9, 20 * 10**9)
