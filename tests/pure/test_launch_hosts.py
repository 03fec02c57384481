"""Which hosts take how many ranks, and what goes there."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from jupyter_ddl.cluster.planning import plan, replanned
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import HostUnfit, InvalidInput
from jupyter_ddl.host.mpi import Mpi
from jupyter_ddl.launch import mpi_job, survey_failures
from jupyter_ddl.launch.address import address_towards, is_this_host, network_of, own_address, own_network
from jupyter_ddl.launch.forwarded import forwarded_names
from jupyter_ddl.launch.host_list import read_hostfile, read_hosts
from jupyter_ddl.launch.mpi_job import Network, launch_command, launch_environment, network_to
from jupyter_ddl.launch.place import HERE, HostSlots, Place
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.launch.schedulers import slurm
from jupyter_ddl.launch.surveyed import Surveyed

TWO = Place("hosts", (HostSlots("nodea", 2), HostSlots("nodeb", 2)), "ssh -p 2222")
OPEN_MPI = Mpi(Path("/opt/bin/mpiexec"), None, "openmpi", "5.0.11", "system", None)
OLD_OPEN_MPI = Mpi(Path("/opt/bin/mpiexec"), None, "openmpi", "4.1.4", "system", None)
HYDRA = Mpi(Path("/opt/bin/mpiexec"), None, "mpich", "5.0.2", "system", None)


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slurm.JOB, raising=False)


def test_hosts_are_read_as_horovodrun_takes_them() -> None:
    assert read_hosts("nodea:2, node-b.example:4,10.0.0.7,[fe80::1]:3") == (
        HostSlots("nodea", 2),
        HostSlots("node-b.example", 4),
        HostSlots("10.0.0.7", 1),
        HostSlots("fe80::1", 3),
    )


@pytest.mark.parametrize(
    "text", ["", "nodea:0", "nodea:two", "-oProxyCommand=x", "nodea:2,", "node a", "a;b", "nodea:2:3"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"A host must be a name or an address.* Received: .* in -H .*Write -H nodea:2"
    ):
        read_hosts(text)


def test_a_host_that_is_named_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"-H names each host once\. Received: nodea, twice\. Add up its slots"):
        read_hosts("nodea:2,nodeb,nodea")


def test_a_hostfile_is_read_in_each_spelling(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    # Open MPI's, MPICH's, and PBS's or LSF's line for each slot.
    file.write_text("# ours\nnodea slots=2 max_slots=4\nnodeb:3  # fast\n\nnodec\nnodec\n")
    assert read_hostfile(file) == (HostSlots("nodea", 2), HostSlots("nodeb", 3), HostSlots("nodec", 2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"A hostfile must name a host\. Received: .*which names none"),
        ("nodea slots=none", r"Received: 'nodea slots=none' in line 1 of "),
        ("nodea\n-x slots=2", r"Received: '-x' in line 2 of "),
        ("nodea slots=0", r"Received: 'nodea slots=0' in line 1 of "),
        (None, r"A hostfile must be a text file\. Received: .*No such file"),
    ],
)
def test_a_hostfile_that_says_something_else_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "hosts"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_hostfile(file)


def test_where_ranks_go(tmp_path: Path) -> None:
    assert place_of() == HERE
    assert place_of(hosts="nodea:2") == Place("hosts", (HostSlots("nodea", 2),))
    (tmp_path / "hosts").write_text("nodea slots=2\n")
    assert place_of(hostfile=str(tmp_path / "hosts"), ssh="ssh -p 1").ssh == "ssh -p 1"
    for options, said in (
        ({"hosts": "a", "hostfile": "b"}, "Received: -H and --hostfile"),
        ({"hosts": "a", "local": True}, "Received: -H and --local"),
        ({"ssh": "ssh"}, r"--ssh says how hosts are reached\. Received: --ssh 'ssh', and no host"),
        ({"hosts": "a", "ssh": " "}, r"--ssh must be a command\. Received: ' '"),
        ({"hosts": "a", "ssh": "'"}, r"--ssh must be a command"),
    ):
        with pytest.raises(InvalidInput, match=said):
            place_of(**options)  # type: ignore[arg-type]


def test_a_spec_on_hosts_has_a_rank_for_each_slot_and_leaves_devices_to_the_ranks() -> None:
    spec = plan(place=TWO)
    assert (spec.n, spec.devices, spec.threads, spec.finds_devices) == (4, (), None, True)
    assert spec.note == "4 ranks on 2 hosts (nodea, nodeb)."
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert replanned(spec, {"n": 3}).place == TWO
    cores = plan(place=TWO, gpus="none", threads=3)
    assert (cores.finds_devices, cores.threads) == (False, 3)
    assert replanned(cores, {}).finds_devices is False
    with pytest.raises(
        InvalidInput, match=r"Ranks must not outnumber the slots of their hosts\. Received: n=5, slots=4"
    ):
        plan(5, place=TWO)
    assert plan(5, place=TWO, oversubscribe=True).n == 5
    with pytest.raises(InvalidInput, match=r"On several hosts each rank takes a GPU of its own host"):
        plan(place=TWO, gpus="0,1")


def test_a_cluster_of_an_older_version_is_here() -> None:
    fields = json.loads(plan(1, gpus="none").to_json())
    del fields["place"], fields["finds_devices"]
    assert ClusterSpec.from_json(json.dumps(fields)).place == HERE


def test_variables_of_this_host_and_secrets_stay_here() -> None:
    inherited = {
        "PYTHONPATH": "/shared",
        "JUPYTER_DDL_DATA": "/data",
        "NCCL_DEBUG": "INFO",
        "TZ": "UTC",
        # Of this host, or of this login.
        "HOME": "/root",
        "SSH_AUTH_SOCK": "/tmp/x",
        "TMPDIR": "/tmp/y",
        "CUDA_VISIBLE_DEVICES": "0",
        "SLURM_JOB_ID": "1",
        # mpiexec carries them itself.
        "OMPI_MCA_pml": "ob1",
        # Of others.
        "JUPYTERHUB_API_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "k",
        "DB_PASSWORD": "p",
        "BASH_FUNC_ml%%": "() {}",
    }
    own = {"OMPI_MCA_btl": "tcp", "PYTHONHASHSEED": "0", "MY_TOKEN": "handed over"}
    assert forwarded_names(inherited, own) == [
        "JUPYTER_DDL_DATA", "MY_TOKEN", "NCCL_DEBUG", "PYTHONHASHSEED", "PYTHONPATH", "TZ",
    ]  # fmt: skip


def test_mpiexec_gets_the_hosts_the_variables_and_the_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/opt/bin:/bin", "TERM": "x"})
    command = launch_command(OPEN_MPI, 4, TWO, {"A": "1", "OMPI_MCA_x": "1"})
    assert command == [
        "/opt/bin/mpiexec", "-n", "4", "--bind-to", "none", "-H", "nodea:2,nodeb:2", "-x", "A", "-x", "PATH",
    ]  # fmt: skip
    variables = launch_environment(OPEN_MPI, 4, TWO, Network("10.0.0.9", "10.0.0.0/24"))
    assert variables["PRTE_MCA_plm_ssh_agent"] == "ssh -p 2222 -o BatchMode=yes"
    assert variables["OMPI_MCA_btl_tcp_if_include"] == variables["PRTE_MCA_prte_if_include"] == "10.0.0.0/24"
    assert variables["OMPI_MCA_btl_tcp_disable_family"] == "6"
    assert variables["PRTE_MCA_oob_tcp_disable_ipv6_family"] == "1"
    # Shared memory alone reaches no other host.
    assert "OMPI_MCA_btl" not in variables
    assert launch_command(HYDRA, 4, TWO, {}) == [
        "/opt/bin/mpiexec", "-n", "4", "-bind-to", "none", "-hosts", "nodea:2,nodeb:2",
    ]  # fmt: skip
    hydra = launch_environment(HYDRA, 4, TWO, Network())
    assert (hydra["HYDRA_LAUNCHER_EXEC"], hydra["HYDRA_LAUNCHER_EXTRA_ARGS"]) == ("ssh", "-p 2222 -o BatchMode=yes")
    assert "UCX_TLS" not in hydra
    intel = launch_environment(replace(HYDRA, flavour="intel", version="2021.19.0"), 4, TWO, Network())
    assert intel["I_MPI_HYDRA_BOOTSTRAP"] == "ssh"
    assert intel["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == "ssh"
    assert intel["I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"] == "-p 2222 -o BatchMode=yes"
    # It would bind each rank to cores.
    assert intel["I_MPI_PIN"] == "0"
    assert "I_MPI_FABRICS" not in intel


def test_on_this_host_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/bin"})
    assert "-H" not in launch_command(OPEN_MPI, 2, HERE, {"A": "1"})
    assert launch_environment(OPEN_MPI, 2, HERE, Network())["OMPI_MCA_btl"] == "self,sm"


@pytest.mark.parametrize("job", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"])
def test_ranks_on_this_host_do_not_go_to_the_nodes_of_its_job(monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    intel = replace(HYDRA, flavour="intel", version="2021.19.0")
    monkeypatch.setattr("os.environ", {"PATH": "/bin"})
    for found in (OPEN_MPI, HYDRA, intel):
        names = launch_environment(found, 2, HERE, Network()).keys()
        assert not names & {"PRTE_MCA_ras", "HYDRA_RMK", "I_MPI_HYDRA_BOOTSTRAP"}
        assert "-hosts" not in launch_command(found, 2, HERE, {})
    monkeypatch.setattr("os.environ", {"PATH": "/bin", job: "12", "PRTE_MCA_plm": "ssh"})
    opened = launch_environment(OPEN_MPI, 2, HERE, Network())
    assert opened["PRTE_MCA_ras"] == "^slurm,pbs"
    # The user's own.
    assert "PRTE_MCA_plm" not in opened
    hydra = launch_environment(HYDRA, 2, HERE, Network())
    assert (hydra["HYDRA_RMK"], hydra["HYDRA_LAUNCHER"]) == ("user", "fork")
    assert launch_environment(intel, 2, HERE, Network())["I_MPI_HYDRA_BOOTSTRAP"] == "fork"
    assert launch_command(intel, 2, HERE, {}) == ["/opt/bin/mpiexec", "-n", "2", "-hosts", "localhost"]


def test_this_host_is_known_by_its_names_and_addresses() -> None:
    assert is_this_host(socket.gethostname())
    assert is_this_host("localhost")
    assert is_this_host("127.0.0.1")
    assert not is_this_host("no-such-host.invalid")
    with pytest.raises(InvalidInput, match=r"A host's name must be known here\. Received: 'no-such-host\.invalid'"):
        address_towards("no-such-host.invalid")


def test_the_network_is_the_one_that_all_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    card = type("Card", (), {"address": "10.0.0.9", "netmask": "255.255.255.0"})()
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": [card]})
    assert network_of("10.0.0.9", ["10.0.0.1", "10.0.0.2"]) == "10.0.0.0/24"
    assert network_of("10.0.0.9", ["10.0.0.1", "10.0.1.2"]) is None
    assert network_of("10.0.9.9", ["10.0.9.1"]) is None


@pytest.mark.parametrize(
    ("status", "said", "text"),
    [
        (
            255,
            "@@@@\nREMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.",
            "must show the key that was known",
        ),
        (
            255,
            "No ED25519 host key is known for n and you have requested strict checking.",
            "must be known before ranks",
        ),
        (255, "me@n: Permission denied (publickey).", "must let you in without a password"),
        (255, "ssh: Could not resolve hostname n: Name or service not known", "name must be known here"),
        (255, "ssh: connect to host n port 22: No route to host", "n must answer SSH"),
        (255, "something new", "n must be reached over SSH. Received: something new"),
        (255, "", "Received: ssh failed, and said nothing"),
        (None, "", "n must answer. Received: nothing within 60 s"),
        (survey_failures.NO_ENVIRONMENT, "", "must have this Python environment at the same path"),
        (1, "Traceback\nImportError: numpy", "must run this environment's Python. Received: ImportError: numpy"),
    ],
)
def test_why_a_host_gave_no_answer(status: int | None, said: str, text: str) -> None:
    error = survey_failures.failure_of("n", status, said, place=Place("hosts"), timeout_s=60)
    assert isinstance(error, HostUnfit)
    assert re.search(re.escape(text), str(error))


def test_ranks_on_several_hosts_sum_within_each_first(monkeypatch: pytest.MonkeyPatch) -> None:
    priority = "OMPI_MCA_coll_han_priority"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(priority, raising=False)
    for found, place, wanted in (
        (OPEN_MPI, TWO, "40"),
        (OPEN_MPI, HERE, None),
        (HYDRA, TWO, None),
        (OLD_OPEN_MPI, TWO, None),
    ):
        assert launch_environment(found, 4, place, Network()).get(priority) == wanted
    monkeypatch.delenv("OMPI_MCA_mpi_yield_when_idle", raising=False)
    assert launch_environment(OPEN_MPI, 4, TWO, Network())["OMPI_MCA_mpi_yield_when_idle"] == "1"
    # Small segments let ranks wait for each other too often.
    segment = "OMPI_MCA_coll_han_allreduce_segsize"
    assert launch_environment(OPEN_MPI, 4, TWO, Network())[segment] == "524288"
    monkeypatch.setenv(segment, "65536")
    assert segment not in launch_environment(OPEN_MPI, 4, TWO, Network())
    monkeypatch.setenv(priority, "0")
    assert priority not in launch_environment(OPEN_MPI, 4, TWO, Network())


def of_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    v4, v6 = socket.AF_INET, socket.AF_INET6
    entry = SimpleNamespace
    found = {
        "lo": [entry(family=v4, address="127.0.0.1", netmask="255.0.0.0")],
        "ib0": [
            entry(family=v6, address="fe80::1%ib0", netmask="ffff:ffff:ffff:ffff::"),
            entry(family=v6, address="fd88::10", netmask="ffff:ffff:ffff:ffff::"),
            entry(family=v4, address="10.88.0.10", netmask="255.255.0.0"),
        ],
        "down0": [],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)


def test_an_interface_that_is_set_has_its_address_and_network(monkeypatch: pytest.MonkeyPatch) -> None:
    of_interfaces(monkeypatch)
    there = [Surveyed("nodea", "nodea", "10.77.0.1", 0.0, {})]
    # Whatever route leads to the hosts.
    assert network_to(there, "ib0") == Network("10.88.0.10", "10.88.0.0/16")
    assert network_to(there, "10.88.0.10") == Network("10.88.0.10", "10.88.0.0/16")
    # ipyparallel listens on IPv4 alone.
    assert network_to(there, "fd88::10") == Network("10.88.0.10", "10.88.0.0/16")
    assert network_to([Surveyed("login", "login", "", 0.0, {})], "ib0") == Network()
    assert own_network("10.99.0.1") is None
    assert place_of(hosts="nodea:2", interface="ib0").interface == "ib0"


def test_hosts_that_are_reached_over_ipv6_use_ipv4_of_that_link(monkeypatch: pytest.MonkeyPatch) -> None:
    of_interfaces(monkeypatch)
    monkeypatch.setattr(mpi_job, "address_towards", lambda _: "fd88::10")
    there = [Surveyed("nodea6", "nodea", "fd88::1", 0.0, {})]
    assert network_to(there) == Network("10.88.0.10", "10.88.0.0/16")
    monkeypatch.setattr(mpi_job, "address_towards", lambda _: "fd99::10")
    with pytest.raises(
        InvalidInput, match=r"reach this one over IPv4\. Received: a route to them from fd99::10, whose"
    ):
        network_to(there)
    with pytest.raises(
        InvalidInput, match=r"mpiexec takes no IPv6 addresses\. Received: fd88::1\. Give that host's name"
    ):
        launch_command(OPEN_MPI, 2, Place("hosts", (HostSlots("fd88::1", 2),)), {})


@pytest.mark.parametrize("given", ["ib1", "down0", "10.88.0.11", ""])
def test_an_interface_that_this_host_does_not_have_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_interfaces(monkeypatch)
    said = rf"must name a network interface of this host, or its address\. Received: {given!r}\. There are: "
    with pytest.raises(InvalidInput, match=said + r"lo \(127\.0\.0\.1\); ib0 \(10\.88\.0\.10, fd88::10\)\."):
        place_of(hosts="nodea:2", interface=given)
    with pytest.raises(InvalidInput, match="must name a network interface"):
        own_address(given)


def test_an_interface_without_hosts_is_refused() -> None:
    said = r"--interface says how hosts reach each other\. Received: --interface 'ib0'"
    with pytest.raises(InvalidInput, match=said):
        place_of(interface="ib0")
