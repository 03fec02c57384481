"""The files of MPICH that are removed once ranks have started."""

from __future__ import annotations

import mmap
import os
import time
from typing import TYPE_CHECKING

from jupyter_ddl.engine.mpich_files import remove_start_files

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86_400.0


def mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def test_what_this_rank_has_mapped_loses_its_name_and_can_be_used(tmp_path: Path) -> None:
    own, other, of_user = (tmp_path / name for name in ("mpich_shm_1a_0", "mpich_shm_2b_0", "weights"))
    for path in (own, other, of_user):
        path.write_bytes(bytes(mmap.PAGESIZE))
    with mapped(own) as segment, mapped(of_user):
        remove_start_files(tmp_path / "none", tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {other.name, of_user.name}
        segment[0] = 1
        assert segment[0] == 1


def test_descriptions_of_the_hardware_are_removed_that_are_younger_than_this_rank(tmp_path: Path) -> None:
    old, new, of_user = (tmp_path / f"hydra_{name}" for name in ("hwloc_xmlfile_aa", "hwloc_xmlfile_bb", "notes"))
    for path in (old, new, of_user):
        path.touch()
    os.utime(old, (time.time() - DAY_S,) * 2)
    remove_start_files(tmp_path, tmp_path / "none")
    assert {path.name for path in tmp_path.iterdir()} == {old.name, of_user.name}
