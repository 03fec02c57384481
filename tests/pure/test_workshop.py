"""`jupyter ddl workshop`: notebooks are copied and never overwritten; what each of a class gets of a server."""

from __future__ import annotations

import doctest
import importlib.util
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from course import NOTEBOOKS, links_of

from jupyter_ddl.cli import main
from jupyter_ddl.course import class_server, class_size, packages, pages
from jupyter_ddl.course.class_server import (
    FREE_AT_START_BYTES,
    LEARNER_BYTES,
    LEARNER_FILES,
    LEARNER_SHARED_BYTES,
    PROCESS_FILES,
    RANK_BYTES,
    Server,
    this_server,
)
from jupyter_ddl.course.class_size import SiteLimits, class_text
from jupyter_ddl.course.notebooks import copy_notebooks, course_notebooks
from jupyter_ddl.course.packages import missing_text
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles import places
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
from jupyter_ddl.protocol.memory_limit import MemoryLimit
from jupyter_ddl.protocol.number_texts import memory_size


def test_notebooks_are_copied_and_what_a_reader_has_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a course"
    assert main(["workshop", str(folder), "--no-lab"]) == 0
    notebooks = course_notebooks()
    assert sorted(path.name for path in folder.iterdir()) == [*(notebook.name for notebook in notebooks), "docs"]
    for notebook in notebooks:
        assert (folder / notebook.name).read_text() == notebook.read_text().replace("](../docs/", "](docs/")
    assert capsys.readouterr().out.count(": copied\n") == len(notebooks) + 1

    mine = folder / notebooks[0].name
    mine.write_text("mine")
    assert main(["workshop", str(folder), "--no-lab"]) == 0
    told = capsys.readouterr().out
    assert f"{mine}: kept: yours is another one\n" in told
    assert f"{folder / 'docs'}: there already\n" in told
    assert told.count(": there already\n") == len(notebooks)
    assert mine.read_text() == "mine"


def test_every_link_of_what_was_copied_leads_to_a_file_and_a_heading_in_the_folder(tmp_path: Path) -> None:
    copies = list(copy_notebooks(tmp_path / "course"))
    assert [copy.state for copy in copies] == ["copied"] * 11
    count, dead = links_of(tmp_path / "course")
    assert dead == []
    assert count > 300
    # A picture that no page shows would be missing in no link.
    pictures = {path.name for path in tmp_path.rglob("*") if path.suffix in {".png", ".svg"}}
    assert {path.name for path in (NOTEBOOKS.parent / "docs").rglob("*.png")} <= pictures
    assert not list(tmp_path.rglob("*.py"))


def test_a_link_out_of_the_folder_becomes_text(tmp_path: Path) -> None:
    list(copy_notebooks(tmp_path))
    page = (tmp_path / "docs" / "how-it-works.md").read_text()
    assert "../" not in page
    assert "CONTRIBUTING" in page
    # It is for Binder, and not copied.
    assert "](../try-it.ipynb)" not in (tmp_path / "docs" / "install.md").read_text()


def test_pages_that_a_reader_has_stay_and_are_named(tmp_path: Path) -> None:
    mine = tmp_path / "docs" / "images" / "flow.svg"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (tmp_path / "docs" / "of-mine.md").write_text("mine")
    *_, kept, others = copy_notebooks(tmp_path)
    assert (kept.path, kept.state) == (mine, "kept")
    assert (others.path, others.state) == (tmp_path / "docs", "copied")
    assert mine.read_text() == "mine"
    assert (tmp_path / "docs" / "of-mine.md").read_text() == "mine"


def test_a_file_where_the_pages_belong_stays_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("mine")
    with pytest.raises(InvalidInput, match=r"Received: .*docs \((File exists|Not a directory)\)"):
        list(copy_notebooks(tmp_path))
    assert (tmp_path / "docs").read_text() == "mine"


def test_an_installation_without_its_pages_says_how_to_mend_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "_FOLDERS", (tmp_path / "docs",))
    with pytest.raises(InvalidInput, match=r"are a part of jupyter_ddl\. Received: an installation without .*docs"):
        pages.course_pages()


def test_the_example_of_links_is_true() -> None:
    assert doctest.testmod(pages) == doctest.TestResults(failed=0, attempted=1)


def test_packages_that_notebooks_lack_are_named_with_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacks = {"torch", "matplotlib", "libcst", "tf_keras"}
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in lacks else found("json"))
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.19.1")
    (tmp_path / "01-from-one-gpu-to-all.ipynb").write_text('{"cells": [1]}')
    assert main(["workshop", str(tmp_path), "--no-lab"]) == 0
    *_, told = capsys.readouterr().out.splitlines()
    assert told == (
        "Missing here: libcst (for 02, 10), matplotlib (for 03, 07), tf_keras (for 07), torch (for 09). "
        f"Run: {sys.executable} -m pip install 'libcst>=1.5' 'matplotlib>=3.8' 'tf-keras==2.19.*' 'torch>=2.7'"
    )
    lacks |= {"horovod"}
    assert str(missing_text(course_notebooks())).endswith(" 'torch>=2.7' && jupyter ddl build-horovod")
    lacks.clear()
    assert missing_text(course_notebooks()) is None


def test_what_is_installed_for_a_notebook_has_the_bounds_of_the_project() -> None:
    bounds = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert [one for one in packages._INSTALLS.values() if f'"{one}' not in bounds] == []


def test_jupyterlab_has_the_folder_and_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _, argv: became.append(argv))
    # It imports TensorFlow; its own tests run it.
    monkeypatch.setattr("jupyter_ddl.doctor.print_report", lambda: became.append(["doctor"]))
    main(["workshop", str(tmp_path), "--lab-options=--port 9999 --notebook-dir 'a folder'"])
    assert became[0] == ["doctor"]
    assert became[1][1:] == ["-m", "jupyterlab", str(tmp_path), "--port", "9999", "--notebook-dir", "a folder"]


@pytest.mark.parametrize("options", [["--no-lab", "--lab-options=--debug"], ["--class", "3", "--no-lab"]])
def test_options_that_exclude_one_another_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["workshop", *options])
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_class_and_a_folder_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workshop", "here", "--class", "3"]) != 0
    assert "--class copies no notebooks. Received: --class 3 here." in capsys.readouterr().err


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"into a folder that you may write to\. Received: .*file \(File exists\)"):
        list(copy_notebooks(tmp_path / "file"))


def test_a_class_that_a_server_carries_and_one_that_it_does_not() -> None:
    server = Server(cores=8, memory_bytes=10 * LEARNER_BYTES, threads=None)
    assert server.carries(10)
    assert not server.carries(11)
    text = class_text(server, 10)
    assert "cores   0.8 of 8\n" in text
    assert "This server carries them. By its memory it carries 10." in text
    assert "2.5 ranks share a core." in text
    assert "This server does not carry them. By its memory it carries 10." in class_text(server, 11)
    assert "share a core" not in class_text(server, 4)


# Enough of all for 100 learners; 594 threads each: 466, and two pools of 64.
PLENTY = Server(
    cores=64,
    memory_bytes=100 * LEARNER_BYTES,
    threads=100 * 594,
    shared_bytes=FREE_AT_START_BYTES + 99 * LEARNER_SHARED_BYTES,
    files=100 * LEARNER_FILES,
    files_each=PROCESS_FILES,
    threads_each=594,
)


@pytest.mark.parametrize(
    ("less", "bound", "most"),
    [
        ({"threads": 3 * 594}, "threads", 3),
        ({"threads": 3 * 594 - 1}, "threads", 2),
        ({"shared_bytes": FREE_AT_START_BYTES + 2 * LEARNER_SHARED_BYTES}, "/dev/shm", 3),
        ({"shared_bytes": FREE_AT_START_BYTES - 1}, "/dev/shm", 0),
        ({"shared_bytes": 0}, "/dev/shm", 0),
        ({"files": 4 * LEARNER_FILES}, "open files", 4),
        ({"files_each": PROCESS_FILES - 1}, "limit of open files", 0),
        ({"threads_each": 593}, "limit of threads", 0),
    ],
)
def test_what_a_server_has_least_of_bounds_a_class(less: dict[str, int], bound: str, most: int) -> None:
    assert (PLENTY.most, PLENTY.bound) == (100, "memory")
    server = replace(PLENTY, **less)
    assert (server.most, server.bound) == (most, bound)
    assert f"This server does not carry them. By its {bound} it carries {most}." in class_text(server, 5)


def test_each_thing_that_a_server_has_is_a_row() -> None:
    shared = f"0.509 MiB of 50.9 MiB, and takes about {memory_size(LEARNER_SHARED_BYTES)}"
    assert class_text(PLENTY, 100).splitlines()[3:9] == [
        f"  /dev/shm    {shared} (32 MiB must be free at its start)",
        "  threads     594 of 59,400, and takes about 594",
        f"  open files  {LEARNER_FILES} of {100 * LEARNER_FILES:,}, and takes about {LEARNER_FILES}",
        f"  ulimit -n   {PROCESS_FILES} open files for each process, and one of them takes about {PROCESS_FILES}",
        "  ulimit -u   594 threads with an account of one's own, and takes about 594",
        "  GPUs        none",
    ]


def test_gpus_are_given_out() -> None:
    server = Server(cores=64, memory_bytes=100 * LEARNER_BYTES, threads=None, gpu_bytes=(141 * 2**30,) * 2)
    text = class_text(server, 4)
    assert "GPUs    2 for all\n" in text
    assert "%ddl start --gpus none" in text
    assert "GPUs    1 of 2\n" in class_text(server, 2)
    own, shared = (
        SiteLimits("the profile default", allotment=GpuAllotment("the profile class", share))
        for share in (None, 40 * 2**30)
    )
    assert class_text(server, 1, own).endswith("have room for 2 of their 2 ranks.")
    assert class_text(server, 4, shared).endswith(
        "By the profile class the GPUs have room for 6 of their 8 ranks: the others start with %ddl start --gpus none."
    )


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"ranks": 2, "clusters": 2}, "By P each may have 2 clusters of 2 ranks, scripts included: 120 ranks of all."),
        ({"ranks": 4, "clusters": 2}, "By P each may have 2 clusters of 4 ranks, scripts included: 240 ranks of all."),
        ({"ranks": 4}, "By P each may have as many clusters as they like of 4 ranks, scripts included."),
        ({"clusters": 3}, "By P each may have 3 clusters of any number of ranks, scripts included."),
    ],
)
def test_what_a_site_allows_each(limits: dict[str, int], told: str) -> None:
    text = class_text(PLENTY, 30, SiteLimits("P", **limits))
    assert text.splitlines()[-1] == told
    assert SiteLimits("P", **limits).suffices


def test_what_a_site_lets_ranks_hold_is_that_of_all_that_it_allows() -> None:
    held = MemoryLimit(2 * 2**30, "P (memory)")
    (told,) = class_text(PLENTY, 10, SiteLimits("P", memory=held)).splitlines()[-1:]
    assert told == "By P (memory) a rank may hold 2 GiB, and all of theirs 40 GiB."
    (told,) = class_text(PLENTY, 30, SiteLimits("P", 4, 2, held)).splitlines()[-1:]
    each = memory_size(PLENTY.memory_bytes / 240)
    assert told == (
        f"By P (memory) a rank may hold 2 GiB, and all of theirs 480 GiB: with less than {each} for each, none takes "
        "another's."
    )


def test_a_site_that_allows_less_than_the_notebooks_take_is_told() -> None:
    alone = SiteLimits("P", clusters=1)
    assert alone.suffices
    assert class_text(PLENTY, 3, alone).endswith(
        "By P each may have 1 cluster of any number of ranks, scripts included.\n"
        "Notebook 10 runs a script beside its ranks: that cell is refused."
    )
    one = SiteLimits("P", ranks=1)
    assert not one.suffices
    assert class_text(PLENTY, 3, one).endswith("That is too few: the notebooks start 2 ranks.")
    small = SiteLimits("P", memory=MemoryLimit(RANK_BYTES - 1, "P"))
    assert not small.suffices
    assert class_text(PLENTY, 3, small).endswith(
        f"That is too little: in notebook 10 a rank holds about {memory_size(RANK_BYTES)}."
    )


def test_what_this_server_has_is_told_by_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = this_server()
    assert server.cores >= 1
    assert main(["workshop", "--class", "1000000"]) == 1
    assert "Each of 1,000,000, with 2 ranks, gets\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["workshop", "--class", "0"])
    assert "a class has 1 learner or more, not 0" in capsys.readouterr().err
    monkeypatch.setattr(places, "_MACHINE", tmp_path)
    (tmp_path / places.FOLDER).mkdir()
    (tmp_path / places.FOLDER / "site.toml").write_text("[default.limits]\nranks = 1\nclusters = 3\n")
    monkeypatch.setattr(class_server, "this_server", lambda: PLENTY)
    assert main(["workshop", "--class", "3"]) == 1
    told = capsys.readouterr().out
    assert "By the profile default each may have 3 clusters of 1 rank, scripts included: 9 ranks of all.\n" in told
    (tmp_path / places.FOLDER / "site.toml").write_text("[default.limits]\nranks = 2\n")
    assert main(["workshop", "--class", "3"]) == 0


def test_pids_of_a_cgroup_are_read(tmp_path: Path) -> None:
    cgroup = tmp_path / "sys/fs/cgroup"
    cgroup.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/self/mountinfo").write_text("30 20 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n")
    (cgroup / "pids.max").write_text("4096\n")
    (cgroup / "pids.current").write_text("96\n")
    assert this_server(tmp_path).threads == 4000
    # The whole machine may allow fewer.
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/pid_max").write_text("32768\n")
    (tmp_path / "proc/sys/kernel/threads-max").write_text("1500\n")
    (tmp_path / "proc/loadavg").write_text("0.10 0.20 0.30 2/700 4711\n")
    assert this_server(tmp_path).threads == 800
    (cgroup / "pids.max").write_text("max\n")
    assert this_server(tmp_path).threads == 800
    (tmp_path / "proc/loadavg").write_text("?\n")
    assert this_server(tmp_path).threads is None


def test_files_and_shared_memory_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (this_server(tmp_path).files, this_server(tmp_path).shared_bytes) == (None, None)
    (tmp_path / "proc/sys/fs").mkdir(parents=True)
    (tmp_path / "proc/sys/fs/file-nr").write_text("1000\t0\t9000\n")
    (tmp_path / "dev/shm").mkdir(parents=True)
    server = this_server(tmp_path)
    assert server.files == 8000
    assert server.shared_bytes is not None
    soft = {resource.RLIMIT_NOFILE: 64, resource.RLIMIT_NPROC: 128}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft[kind], -1))
    assert (this_server(tmp_path).files_each, this_server(tmp_path).threads_each) == (64, 128)
    soft = dict.fromkeys(soft, resource.RLIM_INFINITY)
    assert (this_server(tmp_path).files_each, this_server(tmp_path).threads_each) == (None, None)


def test_the_example_of_a_class_is_true() -> None:
    assert doctest.testmod(class_size) == doctest.TestResults(failed=0, attempted=1)
