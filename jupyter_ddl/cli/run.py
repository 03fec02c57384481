"""`jupyter ddl run script.py ...`: runs a script on MPI ranks, as `horovodrun` would, with our start-up."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path

from jupyter_ddl.commands.arguments import SCRIPT_USAGE, add_script_arguments, cell_options
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import LEGACY_VARIABLE

NAME = "run"
HELP = "Run a script on MPI ranks, one per GPU, or on the cores."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.usage = (
        "jupyter ddl run [-n N] [--gpus 0,1] [--threads T] [--env K=V] [--oversubscribe] "
        f"{SCRIPT_USAGE} [--] SCRIPT.py [ARGS ...]"
    )
    parser.add_argument("-n", type=int, help="ranks (default: one per GPU; else one per two cores, at least 2)")
    parser.add_argument("--gpus", help="the GPUs to use, e.g. 0,1; 'none' for the cores (default: all)")
    parser.add_argument("--threads", type=int, help="TensorFlow's threads on each rank")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable for the ranks")
    parser.add_argument("--oversubscribe", action="store_true", help="let several ranks share a GPU")
    add_script_arguments(parser)
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT.py", help="the script and its arguments")


def main(arguments: argparse.Namespace) -> int:
    """Run the script; return its exit status."""
    from jupyter_ddl.cluster import occupancy
    from jupyter_ddl.cluster.planning import plan, variables_from
    from jupyter_ddl.host.preflight import check_for_mpi
    from jupyter_ddl.script.job import Job

    script = _checked_script(arguments.script)
    options = cell_options(arguments)
    variables = variables_from(arguments.env)
    if not arguments.legacy:
        variables[LEGACY_VARIABLE] = "0"
    spec = plan(
        arguments.n,
        gpus=arguments.gpus,
        threads=arguments.threads,
        environment=variables,
        oversubscribe=arguments.oversubscribe,
    )
    if options.auto is not None and arguments.explain:
        from jupyter_ddl.explain import explain, render

        print(render(explain(Path(script[0]).read_text(), world_size=spec.n, **asdict(options.auto))))
        return 0
    # A script's ranks are no cluster: without a name, every cluster is another one.
    spec = replace(spec, name="")
    occupancy.check_free(spec)
    spec = occupancy.with_sharers_told(spec)
    check_for_mpi()
    job = Job(spec, script, options.checked(range(spec.n), spec.n))
    print(spec.note, file=sys.stderr, flush=True)
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
    if not given:
        raise InvalidInput("The script must be named.", "nothing", "Write: jupyter ddl run -n 2 SCRIPT.py")
    script, *arguments = given
    rule = "What runs on the ranks must be a Python script."
    if Path(script).name.startswith("python") and arguments and not Path(script).is_file():
        remedy = f"Leave {script} out: the ranks run this environment's Python."
        raise InvalidInput(rule, f"{script} {arguments[0]}", remedy)
    if not Path(script).is_file():
        raise InvalidInput("The script must exist.", script, f"Correct its name; this folder is {Path.cwd()}.")
    if Path(script).suffix == ".ipynb":
        remedy = "Begin its cells with %%distributed, or convert it: jupyter nbconvert --to script"
        raise InvalidInput(rule, script, f"{remedy} {script}")
    if Path(script).suffix != ".py":
        raise InvalidInput(rule, script, "Pass a file whose name ends in .py.")
    return [script, *arguments]
