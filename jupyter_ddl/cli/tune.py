"""`jupyter ddl tune`: tries what can change a script's exchange of gradients, and prints what it gains."""

from __future__ import annotations

import argparse
from pathlib import Path

from jupyter_ddl.commands.parsers import options_in
from jupyter_ddl.errors import InvalidInput

NAME = "tune"
HELP = "Try what can change a script's exchange of gradients, a few steps each and in turns; print the gains."
EXAMPLES = (
    ("tune -n 2 train.py", "try every kind of setting"),
    ("tune --only fusion,cycle train.py", "two kinds"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.allow_abbrev = False
    parser.add_argument("-n", type=int, help="ranks (default: as `jupyter ddl run`)")
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each run (20)")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before them (5)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each setting, in turns (3)")
    parser.add_argument("--only", default="", metavar="fusion,cycle,groups,compression,algorithm,threads")
    parser.add_argument("--run-options", default="", metavar="'--auto -H a:2,b:2'", help="options of `jupyter ddl run`")
    parser.add_argument(
        "--cell", action="store_true", help="the script is a cell: it has rank, local_rank and world_size"
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT.py", help="the script and its arguments")


def main(arguments: argparse.Namespace) -> int:
    """Try, and print; return the exit status."""
    from jupyter_ddl.host.cores import usable_cores
    from jupyter_ddl.scaling import tuning

    if not arguments.script or not Path(arguments.script[0]).is_file():
        raise InvalidInput("The script must exist.", " ".join(arguments.script) or "nothing", "Pass SCRIPT.py.")
    for name, least in (("steps", 1), ("warm_up", 0), ("rounds", 1)):
        if getattr(arguments, name) < least:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option} must be at least {least}.", getattr(arguments, name), "Pass more.")
    run_options = tuple(options_in("--run-options", arguments.run_options))
    job = tuning.Job(
        tuple(arguments.script), arguments.n, run_options, arguments.warm_up, arguments.steps, arguments.cell
    )
    hosts = bool({"-H", "--hosts", "--hostfile"} & set(run_options))
    tried = tuning.trials(usable_cores(), arguments.n or 2, nccl=tuning.uses_nccl(), hosts=hosts)
    only = {kind for kind in arguments.only.split(",") if kind}
    unknown = only - {trial.kind for trial in tried}
    if unknown:
        kinds = ",".join(dict.fromkeys(trial.kind for trial in tried))
        raise InvalidInput("--only names kinds of settings.", ",".join(sorted(unknown)), f"Pass some of {kinds}.")
    found = tuning.tune(job, [trial for trial in tried if not only or trial.kind in only], arguments.rounds)
    together = tuning.combined(found)
    if together is not None and together.name not in {tuned.trial.name for tuned in found}:
        # Gains do not add up: what is to be set is measured as a whole.
        again = tuning.tune(job, [together], arguments.rounds)[1]
        found = [*found, again]
        together = together if again.is_worth_it else tuning.best(found)
    print(tuning.table(found))
    print()
    print(tuning.line(together, job))
    return 0
