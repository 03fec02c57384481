"""`jupyter ddl run` takes command lines of horovodrun, ddlrun and mpirun: those of lectures, word for word."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from jupyter_ddl.cli import main
from jupyter_ddl.cli.run import configure
from jupyter_ddl.cli.run_spellings import REFUSED, ssh_command, variables, with_slots, without_python
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place_options import place_of

TEN = ",".join(f"dlw{number:02}" for number in range(4, 14))
BENCHMARK = "python tf_cnn_benchmarks.py --variable_update=ddl --model=resnet50 --num_gpus=1 --batch_size=32"
SUMMIT = (
    "python $CONDA_PREFIX/tf_cnn_benchmarks/tf_cnn_benchmarks.py --variable_update=horovod --model=resnet50 "
    "--num_gpus=1 --batch_size=256 --num_batches=100 --num_warmup_batches=10 --data_name=imagenet --allow_growth=True "
    "--use_fp16"
)
TWO_AND_TWO = (("server1", 2), ("server2", 2))
# What they wrote after the launcher's name -> ranks, hosts with their slots, the variables, the script.
LINES: dict[str, tuple[int | None, tuple[tuple[str, int], ...], list[str], str]] = {
    # IBM's slides on Summit
    "-H server1,server2,server3,server4 python train.py": (
        None,
        tuple((f"server{number}", 1) for number in (1, 2, 3, 4)),
        [],
        "train.py",
    ),
    f"-H dlw03 {BENCHMARK}": (None, (("dlw03", 1),), [], "tf_cnn_benchmarks.py"),
    f"-H {TEN} {BENCHMARK}": (None, tuple((host, 1) for host in TEN.split(",")), [], "tf_cnn_benchmarks.py"),
    SUMMIT: (None, (), [], "$CONDA_PREFIX/tf_cnn_benchmarks/tf_cnn_benchmarks.py"),
    # IT4Innovations' slides
    "-np 4 -H server1:2,server2:2 python train.py": (4, TWO_AND_TWO, [], "train.py"),
    "-n 4 -ppn 2 -hosts server1,server2 python train.py": (4, TWO_AND_TWO, [], "train.py"),
    # The University of Queensland's workshop
    "-np 4 -bind-to none -map-by slot python multi-fashion-minst.py": (4, (), [], "multi-fashion-minst.py"),
    "-np 4 -env HOROVOD_TIMELINE=timeline.json -env HOROVOD_TIMELINE_MARK_CYCLES=0 -bind-to none -map-by slot "
    "python multi-fashion-minst.py": (
        4,
        (),
        ["HOROVOD_TIMELINE=timeline.json", "HOROVOD_TIMELINE_MARK_CYCLES=0"],
        "multi-fashion-minst.py",
    ),
    # Horovod's own pages
    "-np 4 -H localhost:4 --verbose python3 -u train.py --epochs 3": (4, (("localhost", 4),), [], "train.py"),
    "--num-proc 4 --hosts server1:2,server2:2 -p 12345 python train.py": (4, TWO_AND_TWO, [], "train.py"),
    "--accelerators 2 -H server1,server2 --tcp python train.py -m x": (None, TWO_AND_TWO, [], "train.py"),
    "--accelerators 4 -H server1:2,server2 python train.py": (None, (("server1", 2), ("server2", 4)), [], "train.py"),
}


def parsed(line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(shlex.split(line))


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_lecture_works_as_it_is(line: str) -> None:
    ranks, hosts, variables_then, script = LINES[line]
    arguments = parsed(line)
    place = with_slots(
        place_of(arguments.hosts, arguments.hostfile, ssh_command(arguments)), arguments.hosts, arguments.slots_each
    )
    assert arguments.n == ranks
    assert tuple((one.host, one.slots) for one in place.hosts) == hosts
    assert variables(arguments) == variables_then
    first, *others = without_python(arguments.script)
    assert first == script
    assert others == shlex.split(line.partition(f"{script}")[2])


def test_a_hostfile_is_one_with_either_number_of_hyphens(tmp_path: Path) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_text("server1 slots=2\nserver2 slots=2\n")
    for option in ("-hostfile", "--hostfile"):
        place = place_of(hostfile=parsed(f"{option} {hostfile} train.py").hostfile)
        assert tuple((one.host, one.slots) for one in place.hosts) == TWO_AND_TWO


def test_the_port_and_the_key_become_part_of_the_ssh_command() -> None:
    assert ssh_command(parsed("-H a train.py")) is None
    assert ssh_command(parsed("-H a --ssh 'ssh -l me' train.py")) == "ssh -l me"
    assert ssh_command(parsed("-H a -p 2222 train.py")) == "ssh -p 2222"
    assert ssh_command(parsed("-H a --ssh-port 22 -i key --ssh 'ssh -l me' train.py")) == "ssh -l me -p 22 -i key"


def test_a_variable_of_mpiruns_has_its_value_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert variables(parsed("-x NCCL_DEBUG -x A=1 --env B=2 train.py")) == ["NCCL_DEBUG=INFO", "A=1", "B=2"]
    monkeypatch.delenv("NCCL_DEBUG")
    with pytest.raises(InvalidInput, match=r"-x carries a variable.*Received: -x NCCL_DEBUG\. Write --env NCCL_DEBUG="):
        variables(parsed("-x NCCL_DEBUG train.py"))


@pytest.mark.parametrize("option", REFUSED)
def test_what_is_not_taken_is_refused_by_its_name(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ([option, "1", "train.py"], [f"{option}=1", "train.py"]) if option.startswith("--") else ([option],):
        assert main(["run", *line]) == 1
        rule = f"jupyter ddl: `jupyter ddl run` has no such option. Received: {option}. {REFUSED[option].rstrip('.')}"
        assert capsys.readouterr().err.startswith(rule)


def test_other_bindings_and_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"-bind-to can only be none\. Received: core\. Leave it out: each rank"):
        parsed("-bind-to core train.py")
    with pytest.raises(InvalidInput, match=r"--map-by can only be slot\. Received: node\. Leave it out: a host is"):
        parsed("--map-by node train.py")
    with pytest.raises(InvalidInput, match=r"A host takes at least 1 rank\. Received: 0\. Write --accelerators 4"):
        with_slots(place_of("a,b"), "a,b", 0)


def test_the_options_of_a_script_are_its_own() -> None:
    line = "-n 2 python train.py --a 1 -p 3 -x --gloo --auto -bind-to core -e 5 -cb"
    assert parsed(line).script == shlex.split(line)[2:]


def test_every_option_that_is_refused_or_taken_is_in_the_table_of_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "hpc.md").read_text()
    missing = [option for option in REFUSED if f"`{option}" not in page]
    assert not missing
