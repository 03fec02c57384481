"""Profiles: what a file may say, whom it is trusted from, and what a start or a job takes from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.submission import wanted_of
from jupyter_ddl.commands.profiles import listing
from jupyter_ddl.doctor.profiles import check_profiles
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.current import KernelSessions
from jupyter_ddl.launch.profiles.job_defaults import job_options
from jupyter_ddl.launch.profiles.limits import Allowed, check_limits, seconds_of
from jupyter_ddl.launch.profiles.loaded_modules import changed, loaded_variables
from jupyter_ddl.launch.profiles.places import check_trusted, profile_folders
from jupyter_ddl.launch.profiles.profile import Named, Profile
from jupyter_ddl.launch.profiles.reading import all_profiles, profile_named, read_profiles
from jupyter_ddl.launch.profiles.start_options import StartOptions, interface_variables, with_profile
from jupyter_ddl.launch.schedulers import slurm

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/profiles").glob("*.toml"))

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.spec import ClusterSpec

    Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (slurm.JOB, "PBS_JOBID", "LSB_JOBID"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of profiles."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "jupyter_ddl.d"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def write(home: Path) -> Write:
    def written(text: str, name: str = "site.toml") -> Path:
        file = home / name
        file.write_text(text)
        file.chmod(0o644)
        return file

    return written


def of(**fields: object) -> Named:
    return Named("a100", "/etc/site.toml", Profile(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_profiles(file: Path, tmp_path: Path) -> None:
    copied = tmp_path / file.name
    copied.write_text(file.read_text())
    copied.chmod(0o644)
    assert read_profiles(copied)


def test_there_is_an_example_of_each_kind(tmp_path: Path) -> None:
    launchers = set()
    for file in EXAMPLES:
        copied = tmp_path / file.name
        copied.write_text(file.read_text())
        copied.chmod(0o644)
        launchers |= {one.profile.launcher for one in read_profiles(copied)}
    assert launchers == {"slurm", "lsf", "pbs", "hosts"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nlaucher = 'slurm'", r"keys must be known\. Received: \S*site\.toml: a\.laucher\. \[a\] takes"),
        ("[a.limits]\ncores = 2", r"site\.toml: a\.limits\.cores\. \[a\.limits\] takes ranks, nodes, time"),
        ("[a]\nlauncher = 'sge'", r"value of its type\. .*site\.toml: Invalid enum value 'sge' - at `a\.launch"),
        ("[a.limits]\nranks = 'two'", r"site\.toml: Expected `int \| null`, got `str` - at `a\.limits\.ranks`"),
        ("[a.limits]\nranks = 0", r"A count must be at least 1\. Received: \S*site\.toml: a\.limits\.ranks = 0"),
        ("[a.defaults]\ntime = 'soon'", r"A time must be HOURS:MINUTES.*a\.defaults\.time = 'soon'"),
        ("[a.environment]\n'A B' = 'x'", r"A variable must have a name that a shell takes\. .*a\.environment\.A B"),
        ('[a]\nsetup = ["a\\nb"]', r"lines of setup must be one line each\. .*a: 'a\\nb'"),
        ("[a]\nlauncher = 'hosts'", r"a profile names hosts or a hostfile\. Received: \S*: a: neither"),
        ("[a]\nhosts = 'n:2'", r'Hosts go with launcher = "hosts"\. Received: \S*: a\.launcher = \'local\''),
        ("[a]\noptions = ['-x']", r"Options are those of a scheduler\. Received: \S*: a\.launcher = 'local'"),
        (
            "[a]\nlauncher = 'slurm'\nmpi_launcher = 'jsrun'",
            r"Ranks start by jsrun where launcher = \"lsf\"\. Received: \S*: a\.launcher = 'slurm'",
        ),
        ("a = 1", r"Each profile must be a table with its name\. .*Write \[a100\] above its keys"),
        ("[a", r"A file of profiles must be TOML\. Received: \S*site\.toml: "),
    ],
)
def test_what_a_file_must_not_say_is_refused_with_file_and_key(write: Write, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_profiles(write(text))


def test_a_file_that_is_not_there_or_a_folder_that_is_none_is_refused(home: Path) -> None:
    with pytest.raises(InvalidInput, match=r"A file of profiles must be readable\. Received: \S*none\.toml: No such"):
        read_profiles(home / "none.toml")
    home.rmdir()
    home.write_text("")
    with pytest.raises(InvalidInput, match=r"A folder of profiles must be readable\. Received: .*Not a directory"):
        all_profiles((home,))


def test_a_file_that_others_can_change_is_refused(write: Write) -> None:
    file = write("[a]")
    file.chmod(0o666)
    with pytest.raises(InvalidInput, match=r"no other user can change\. Received: .*every user can write .*chmod go-w"):
        read_profiles(file)
    file.chmod(0o644)
    file.parent.chmod(0o1777)
    assert [one.name for one in read_profiles(file)] == ["a"]
    file.parent.chmod(0o777)
    with pytest.raises(InvalidInput, match=r"every user can write to \S*jupyter_ddl\.d, mode 0777"):
        read_profiles(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_trusted_within_the_environment_that_is_its_owners(write: Write) -> None:
    file = write("[a]")
    os.chown(file, 12345, 0)
    with pytest.raises(InvalidInput, match=r"is user 12345's, who can replace what is in it\. Copy what you trust"):
        check_trusted(file)
    os.chown(file.parent, 12345, 0)
    check_trusted(file, prefix=file.parent)


def test_a_later_files_profile_wins_and_the_users_folder_is_last(write: Write, home: Path, tmp_path: Path) -> None:
    folders = profile_folders(tmp_path / "root", tmp_path / "prefix")
    assert folders == (
        tmp_path / "root/etc/jupyter/jupyter_ddl.d",
        tmp_path / "prefix/etc/jupyter/jupyter_ddl.d",
        home,
    )
    site = folders[0]
    site.mkdir(parents=True, mode=0o755)
    (site / "a.toml").write_text("[a100]\ndescription = 'the site'\n[debug]")
    write("[a100]\ndescription = 'mine'")
    found = all_profiles(folders)
    assert sorted(found) == ["a100", "debug"]
    assert found["a100"].profile.description == "mine"
    assert found["debug"].file == str(site / "a.toml")
    with pytest.raises(InvalidInput, match=r"that a file names\. Received: 'none'\. Profiles: a100, debug\. Files of"):
        profile_named("none", folders)


def test_profiles_are_listed(write: Write) -> None:
    assert "Files of them are looked for in " in listing()
    file = write("[pair]\nlauncher = 'hosts'\nhosts = 'a:2'\ndescription = 'two'")
    assert listing().splitlines()[1].split() == ["pair", "hosts", "two", str(file)]


def test_what_is_given_wins_over_the_profile() -> None:
    named = of(launcher="hosts", hosts="a:2,b:2", ssh="ssh -p 2222", environment={"X": "1", "Y": "1"})
    options = with_profile(named, StartOptions(n=3, env={"X": "2"}))
    assert options == StartOptions(3, None, {"X": "2", "Y": "1"}, "a:2,b:2", None, "ssh -p 2222")
    there = with_profile(named, StartOptions(hosts="c:1", ssh="ssh -4"))
    assert (there.hosts, there.ssh) == ("c:1", "ssh -4")
    assert with_profile(named, StartOptions(local=True)).hosts is None
    assert with_profile(of(), StartOptions()).local


def test_ranks_of_a_scheduler_start_in_its_job() -> None:
    with pytest.raises(
        InvalidInput, match=r"start in a job of slurm\. Received: no such job .*%ddl submit --profile a100"
    ):
        with_profile(of(launcher="slurm"), StartOptions())


def test_a_start_and_a_job_take_the_profiles_container() -> None:
    assert with_profile(of(container="x.sif"), StartOptions()).container == "x.sif"
    assert with_profile(of(container="x.sif"), StartOptions(container="y.sif")).container == "y.sif"
    # What modules put on the host's paths says nothing in the image.
    setup = ("export PATH=/of/a/module:$PATH", "export OF_A_MODULE=1")
    assert with_profile(of(container="x.sif", setup=setup), StartOptions()).env == {"OF_A_MODULE": "1"}
    assert set(with_profile(of(setup=setup), StartOptions()).env) == {"PATH", "OF_A_MODULE"}
    job = of(launcher="slurm", container="x.sif")
    assert job_options(job, {})["container"] == "x.sif"
    assert job_options(job, {"container": "y.sif"})["container"] == "y.sif"
    assert wanted_of(None, {"container": "y.sif"}, name=None, keep=False, rebuild=True).container == "y.sif"


def test_a_start_beyond_the_limits_is_refused_with_the_sites_file() -> None:
    named = Named("a100", "/etc/site.toml", Profile())
    check_limits(named, ranks=1000, nodes=100, time="99:00")
    from jupyter_ddl.launch.profiles.profile import Limits

    limited = of(limits=Limits(ranks=8, nodes=2, time="1:00"))
    check_limits(limited, ranks=8, nodes=2, time="0:60")
    for asked, said in (
        ({"ranks": 9}, r"at most 8 ranks\. Received: 9 ranks\. Ask for less; /etc/site\.toml has the limit"),
        ({"nodes": 3}, r"at most 2 nodes\. Received: 3 nodes"),
        ({"time": "1:00:01"}, r"at most a time of 1:00\. Received: a time of 1:00:01"),
    ):
        with pytest.raises(InvalidInput, match=said):
            check_limits(limited, **asked)  # type: ignore[arg-type]


def test_times_are_read() -> None:
    assert [seconds_of(text) for text in ("1:00", "0:00:30", "1-00:00", "90", "soon")] == [3600, 30, 86400, None, None]


def test_a_job_takes_the_profiles_defaults_and_its_script_loads_the_modules(write: Write) -> None:
    write(
        "[a100]\nlauncher = 'slurm'\nmodules = ['cuda/12.4']\nsetup = ['ulimit -c 0']\noptions = ['--exclusive']\n"
        "[a100.environment]\nX = \"it's\"\n[a100.defaults]\nnodes = 2\nntasks_per_node = 4\npartition = 'gpu'\n"
        "[a100.limits]\nnodes = 2"
    )
    given = {"nodes": None, "ntasks_per_node": 1, "options": ("--qos=low",)}
    wanted = wanted_of("a100", given, name=None, keep=False, rebuild=True)
    assert (wanted.nodes, wanted.ntasks_per_node, wanted.partition) == (2, 1, "gpu")
    assert wanted.options == ("--exclusive", "--qos=low")
    assert wanted.setup[1:] == ("module load cuda/12.4", "ulimit -c 0", "export X='it'\"'\"'s'")
    with pytest.raises(InvalidInput, match=r"a100 allows at most 2 nodes\. Received: 3 nodes.*site\.toml"):
        wanted_of("a100", {"nodes": 3}, name=None, keep=False, rebuild=True)


def test_a_job_takes_no_profile_of_hosts() -> None:
    with pytest.raises(InvalidInput, match=r"of a batch scheduler\. Received: a100, whose launcher is local"):
        job_options(of(), {})


def test_an_interface_is_for_mpi_and_nccl_and_what_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth1")
    variables = interface_variables("ib0")
    assert variables["OMPI_MCA_btl_tcp_if_include"] == "ib0"
    assert "NCCL_SOCKET_IFNAME" not in variables
    assert "GLOO_SOCKET_IFNAME" not in interface_variables("10.1.0.0/16")
    assert interface_variables(None) == {}


def test_what_a_shell_adds_to_a_path_is_added_to_this_process_own() -> None:
    before = {"PATH": "/usr/bin", "KEPT": "1", "PYTHONPATH": "/a", "SHLVL": "1"}
    after = {
        "PATH": "/cuda/bin:/usr/bin",
        "KEPT": "1",
        "PYTHONPATH": "/b",
        "LD_LIBRARY_PATH": "/cuda/lib",
        "CUDA_HOME": "/cuda",
        "SHLVL": "2",
        "BASH_FUNC_module%%": "() { x; }",
    }
    own = {"PATH": "/venv/bin:/usr/local/bin", "LD_LIBRARY_PATH": "/own", "CUDA_HOME": "/cuda"}
    assert changed(before, after, own) == {
        "PATH": "/cuda/bin:/venv/bin:/usr/local/bin",
        "PYTHONPATH": "/b",
        "LD_LIBRARY_PATH": "/cuda/lib:/own",
        "CUDA_HOME": "/cuda",
    }


def test_modules_and_setup_take_effect_by_a_login_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".bash_profile").write_text('echo welcome\nmodule() { export LOADED="$2"; PATH=/m/bin:$PATH; }\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    variables = loaded_variables(of(modules=("cuda/12.4",), setup=("export LINES_OF='a\nb'".replace("\n", " "),)))
    assert variables["LOADED"] == "cuda/12.4"
    assert variables["LINES_OF"] == "a b"
    assert variables["PATH"] == f"/m/bin:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no-such-command", r"must work in a login shell\. Received: .*no-such-command: command not found.*bash -lc"),
        ("echo 'x.c(213):ERROR:105: Unable to locate a modulefile' >&2", r"Received: x\.c\(213\):ERROR:105: Unable"),
        ("exit 3", r"Received: status 3\. .*They stand in /etc/site\.toml"),
        ("sleep 60", r"Received: no end within 1 s\."),
    ],
)
def test_lines_that_fail_are_refused_in_the_shells_own_words(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidInput, match=said):
        loaded_variables(of(setup=(line,)), timeout_s=1 if "sleep" in line else 30)


def test_no_bash_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"Received: there is no bash here\."):
        loaded_variables(of(modules=("cuda",)))


def test_the_doctor_says_what_is_wrong_with_a_profile(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [(one.status, one.text) for one in check_profiles((home,))] == [("ok", "none")]
    write(
        "[pair]\nlauncher = 'hosts'\nhosts = 'localhost:2,no-such-host.invalid'\ncontainer = '/no/such.sif'\n"
        "[queue]\nlauncher = 'lsf'\n[here]\nsetup = ['export X=1']"
    )
    monkeypatch.setattr("jupyter_ddl.doctor.profiles.shutil.which", lambda name: None if name == "bsub" else name)
    here, pair, queue = check_profiles((home,))
    assert (here.status, here.text) == ("ok", "here (local)")
    assert pair.status == "note"
    assert "host 'no-such-host.invalid'" in pair.text
    assert "no container at /no/such.sif" in pair.text
    assert queue.text == "queue: no bsub here"
    write("[pair")
    (broken,) = check_profiles((home,))
    assert broken.status == "problem"
    assert "A file of profiles must be TOML" in broken.text


def test_ranks_started_with_a_profile_keep_its_limits_for_their_restarts(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("[small]\n[small.limits]\nranks = 3\nnodes = 1")
    started: list[ClusterSpec] = []
    monkeypatch.setattr(KernelSessions, "start", lambda _self, spec, *_, **__: started.append(spec))
    current.start(2, gpus="none", profile="small")
    current.start(2, gpus="none")
    assert [spec.allowed for spec in started] == [Allowed("small", str(file), ranks=3, nodes=1), None]
    with pytest.raises(InvalidInput, match=r"The profile small allows at most 3 ranks\. Received: 4 ranks"):
        current.start(4, gpus="none", profile="small")
