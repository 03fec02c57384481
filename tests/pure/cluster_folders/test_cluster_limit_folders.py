"""A profile's limit of a user's clusters: counted by their folders, of which this process is the lease."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from own_clusters import running

import jupyter_ddl
from jupyter_ddl.cluster import finding, registry
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.limits import check_clusters
from jupyter_ddl.launch.profiles.reading import profile_named, read_profiles

if TYPE_CHECKING:
    from pathlib import Path

PROFILES = """
[one]
limits = {clusters = 1}
[two]
limits = {clusters = 2}
[free]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file of the profiles above."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    file = tmp_path / "jupyter_ddl.d" / "site.toml"
    file.parent.mkdir()
    file.write_text(PROFILES)
    return file


def test_a_start_beyond_the_limit_is_refused(site: Path) -> None:
    running("first")
    with pytest.raises(InvalidInput) as error:
        jupyter_ddl.start(n=1, gpus="none", name="more", profile="one")
    assert str(error.value) == (
        "The profile one allows a user at most 1 cluster at a time. Received: one more; running: first. "
        "%ddl attach NAME, then %ddl stop, ends one, and %ddl jobs --cancel JOB a job; "
        f"{site} has the limit."
    )
    # Nothing of it is left: its folder would count.
    assert registry.names(registry.here()) == ["first"]


@pytest.mark.usefixtures("site")
def test_what_counts() -> None:
    first, second = running("first"), running("second")
    with pytest.raises(
        InvalidInput, match=r"at most 2 clusters at a time\. Received: one more; running: first, second\."
    ):
        check_clusters(profile_named("two"), lambda: finding.names_beside("third"))
    # A second one of a name is refused for its name.
    check_clusters(profile_named("two"), lambda: finding.names_beside("second"))
    (second.path / "lease.json").unlink()
    check_clusters(profile_named("two"), lambda: finding.names_beside("third"))
    assert finding.names_beside("third") == [first.name]


@pytest.mark.usefixtures("site")
def test_without_the_limit_none_are_looked_for() -> None:
    def looked() -> list[str]:
        raise AssertionError("Folders on slow file systems are read for nothing.")

    check_clusters(profile_named("free"), looked)
    with pytest.raises(AssertionError, match="for nothing"):
        check_clusters(profile_named("one"), looked)


def test_the_limit_is_a_count(site: Path) -> None:
    site.write_text("[none]\nlimits = {clusters = 0}\n")
    with pytest.raises(InvalidInput, match=re.escape("A count must be at least 1.") + r".*none\.limits\.clusters = 0"):
        read_profiles(site)
