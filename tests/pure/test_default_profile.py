"""A start that names no profile takes the one called "default", where it says nothing of where its ranks go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.places import FOLDER
from jupyter_ddl.launch.profiles.start_options import StartOptions, profile_of

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = [StartOptions(hosts="nodea:2"), StartOptions(hostfile="hosts")]
HERE = StartOptions(local=True)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of profiles, which is empty."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    file = tmp_path / FOLDER / "site.toml"
    file.parent.mkdir()
    file.touch()
    return file


def name_of(name: str | None, given: StartOptions) -> str | None:
    found = profile_of(name, given)
    return None if found is None else found.name


def test_it_is_taken_where_the_start_names_none(site: Path) -> None:
    assert name_of(None, StartOptions()) is None
    site.write_text("[default]\nlimits = {ranks = 2}\n[night]\n")
    assert name_of(None, StartOptions(n=1)) == "default"
    assert name_of("night", StartOptions()) == "night"


@pytest.mark.parametrize("given", ELSEWHERE)
def test_it_is_left_where_the_start_says_where_its_ranks_go(site: Path, given: StartOptions) -> None:
    site.write_text("[default]\n")
    assert name_of(None, given) is None
    assert name_of("default", given) == "default"


def test_a_start_that_says_this_host_takes_it_where_it_is_for_this_host(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write_text("[default]\n")
    assert name_of(None, HERE) == "default"
    site.write_text('[default]\nlauncher = "slurm"\n')
    assert name_of(None, HERE) is None
    site.write_text("[default]\n")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert name_of(None, HERE) is None


@pytest.mark.parametrize("job", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"])
def test_it_is_left_in_a_batch_job_also_of_one_node(site: Path, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    site.write_text("[default]\n")
    monkeypatch.setenv(job, "12")
    assert name_of(None, StartOptions()) is None


def test_a_file_that_breaks_a_rule_is_named(site: Path) -> None:
    site.write_text("[default]\nlimit = 2\n")
    with pytest.raises(
        InvalidInput, match=r"A profile's keys must be known\. Received: .*site\.toml: default\.limit\."
    ):
        profile_of(None, StartOptions())
