"""`jupyter ddl run script.py ...`: runs a script on MPI ranks, as `horovodrun` would, with our start-up.

The ranks are on this host, on those of `-H` or `--hostfile`, or on the nodes of the batch job that this process is in.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.cli import run_spellings as spellings
from jupyter_ddl.cli.run_spellings import add_spellings, ssh_command, with_slots, without_python
from jupyter_ddl.commands.arguments import SCRIPT_USAGE, add_script_arguments, cell_options
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import LEGACY_VARIABLE

if TYPE_CHECKING:
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.protocol.cell_options import CellOptions
    from jupyter_ddl.script.job import Job

NAME = "run"
HELP = "Run a script on MPI ranks, one per GPU, or on the cores."
EXAMPLES = (
    ("run -n 2 train.py --epochs 3", "two ranks on this machine; what follows the script is its own"),
    ("run --auto train.py", "a Keras program that was written for one GPU, on all of them"),
    ("run -H nodea:4,nodeb:4 train.py", "eight ranks on two hosts, over SSH"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.usage = (
        "jupyter ddl run [-n N] [-H HOST:SLOTS,... | --hostfile FILE | --local] [--ssh COMMAND] [--profile NAME] "
        "[--container IMAGE] [--launcher jsrun] [--gpus 0,1] [--threads T] [--env K=V] [--oversubscribe] "
        f"{SCRIPT_USAGE} [--] SCRIPT.py [ARGS ...]"
    )
    # A script's own options, which argparse looks at too, are no abbreviations of ours.
    parser.allow_abbrev = False
    parser.add_argument("-n", type=int, help="ranks (default: one per GPU; else one per two cores, at least 2)")
    parser.add_argument("-H", "--hosts", "-hosts", metavar="HOST:SLOTS,...", help="ranks on these hosts, over SSH")
    parser.add_argument("--hostfile", "-hostfile", metavar="FILE", help="the same as a file: lines `nodea slots=2`")
    parser.add_argument("--local", action="store_true", help="ranks on this host, also within a batch job")
    parser.add_argument("--ssh", metavar="COMMAND", help="how hosts are reached (default: ssh)")
    parser.add_argument("--profile", metavar="NAME", help="ranks at a place of the site's or yours")
    parser.add_argument("--container", metavar="IMAGE", help="ranks in this image of Apptainer's, e.g. ddl.sif")
    parser.add_argument("--launcher", metavar="mpiexec|jsrun", help="what starts them in an LSF job (default: mpiexec)")
    parser.add_argument(
        "--network-interfaces",
        "--network-interface",
        metavar="NAME,...",
        help="the only ones that MPI uses, on all hosts (default: the network on which all of them are)",
    )
    parser.add_argument("--gpus", help="the GPUs to use, e.g. 0,1; 'none' for the cores (default: all)")
    parser.add_argument("--threads", type=int, help="TensorFlow's threads on each rank")
    parser.add_argument("--env", "-env", action="append", default=[], metavar="K=V", help="a variable for the ranks")
    parser.add_argument("--oversubscribe", action="store_true", help="let several ranks share a GPU")
    add_script_arguments(parser)
    add_spellings(parser)
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT.py", help="the script and its arguments")


def main(arguments: argparse.Namespace) -> int:
    """Run the script; return its exit status."""
    script = _checked_script(arguments.script)
    options = cell_options(arguments)
    spec = _spec(arguments)
    if options.auto is not None and arguments.explain:
        from jupyter_ddl.explain import explain, render

        print(render(explain(Path(script[0]).read_text(), world_size=spec.n, **asdict(options.auto))))
        return 0
    from jupyter_ddl.cluster import start_claims

    with start_claims.claimed(spec.allowed, start_claims.of_script(script[0])):
        return _run(_job(script, options, spec, arguments.network_interfaces))


def _spec(arguments: argparse.Namespace) -> ClusterSpec:
    """Return which ranks to start where, as the options and the profile that they name say."""
    from jupyter_ddl.cluster.planning import plan, variables_from
    from jupyter_ddl.launch.place_options import place_of
    from jupyter_ddl.launch.profiles.site_limits import allowed_at
    from jupyter_ddl.launch.profiles.start_options import StartOptions, profile_of, with_profile

    variables = variables_from(spellings.variables(arguments))
    if not arguments.legacy:
        variables[LEGACY_VARIABLE] = "0"
    given = StartOptions(
        arguments.n,
        arguments.threads,
        variables,
        arguments.hosts,
        arguments.hostfile,
        ssh_command(arguments),
        arguments.local,
        arguments.container,
        arguments.launcher,
    )
    named = profile_of(arguments.profile, given)
    start = given if named is None else with_profile(named, given)
    place = place_of(
        start.hosts,
        start.hostfile,
        start.ssh,
        local=start.local,
        container=start.container,
        launcher=start.launcher,
    )
    allowed = allowed_at(named, place)
    return plan(
        arguments.slots_each if start.n is None and place.is_here else start.n,
        gpus=arguments.gpus,
        threads=start.threads,
        environment=start.env,
        oversubscribe=arguments.oversubscribe,
        place=with_slots(place, start.hosts, arguments.slots_each),
        # A script's ranks end with it, and are never idle.
        allowed=None if allowed is None else replace(allowed, idle_stop=None),
    )


def _job(script: list[str], options: CellOptions, spec: ClusterSpec, network_interfaces: str | None) -> Job:
    """Return the job that is to run, after a check that its devices and MPI are there."""
    from jupyter_ddl.cluster import occupancy
    from jupyter_ddl.host.preflight import check_for_script
    from jupyter_ddl.script.job import Job
    from jupyter_ddl.script.launching import look_at_hosts

    # A script's ranks are no cluster: without a name, every cluster is another one.
    spec = replace(spec, name="")
    occupancy.check_free(spec)
    spec = occupancy.with_sharers_told(spec)
    check_for_script(spec.n)
    surroundings = look_at_hosts(spec, network_interfaces)
    print(spec.note, file=sys.stderr, flush=True)
    return Job(spec, script, options.checked(range(spec.n), spec.n), surroundings)


def _run(job: Job) -> int:
    """Run a job, say what came of it, and return the exit status."""
    try:
        outcome = job.run()
    except BrokenPipeError:
        # The reader of our output has enough (`| head`). What is still buffered cannot be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    if outcome.report:
        print(outcome.report, file=sys.stderr)
    return outcome.status


def _checked_script(given: list[str]) -> list[str]:
    """Return the script and its arguments, as they were given, after a check that it can run."""
    if given[:1] == ["--"]:
        given = given[1:]
    given = without_python(given)
    if not given:
        raise InvalidInput("The script must be named.", "nothing", "Write: jupyter ddl run -n 2 SCRIPT.py")
    script, *arguments = given
    rule = "What runs on the ranks must be a Python script."
    if not Path(script).is_file():
        raise InvalidInput("The script must exist.", script, f"Correct its name; this folder is {Path.cwd()}.")
    if Path(script).suffix == ".ipynb":
        remedy = "Begin its cells with %%distributed, or convert it: jupyter nbconvert --to script"
        raise InvalidInput(rule, script, f"{remedy} {script}")
    if Path(script).suffix != ".py":
        raise InvalidInput(rule, script, "Pass a file whose name ends in .py.")
    return [script, *arguments]
