"""Parses the line of `%ddl`: its commands, in the order in which its help lists them.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster.submit_options import add_submit_options
from jupyter_ddl.commands import logs, runs, timeline
from jupyter_ddl.commands.examples import add_examples
from jupyter_ddl.kernel.magics import board_command, job_commands, stack_commands
from jupyter_ddl.kernel.magics.ddl_examples import EXAMPLES
from jupyter_ddl.kernel.magics.magic_line import MagicParser
from jupyter_ddl.kernel.rebuild_choice import BY_OPTION
from jupyter_ddl.protocol import standby
from jupyter_ddl.protocol.sklearn_names import CHOICES as SKLEARN_CHOICES

if TYPE_CHECKING:
    from argparse import ArgumentParser


def ddl_parser() -> MagicParser:
    """Return the parser; the command's name is `command` in what it returns."""
    parser = MagicParser(prog="%ddl", description="Start, see and end the ranks, and see what ran.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=MagicParser)
    _add_starts(commands)
    _add_ranks(commands)
    _add_cells(commands)
    _add_records(commands)
    for name, command in commands.choices.items():
        add_examples(command, EXAMPLES[name])
    return parser


def _add_starts(commands: Any) -> None:
    """Add the commands that start ranks."""
    start = commands.add_parser("start", help="start ranks")
    restart = commands.add_parser("restart", help="end the ranks and start new ones, with what is given changed")
    for command in (start, restart):
        command.add_argument("-n", type=int, help="ranks (default: one per GPU; else one per two cores, at least 2)")
        command.add_argument("--gpus", help="the GPUs to use, e.g. 0,1; 'none' for the cores (default: all)")
        command.add_argument("--threads", type=int, help="TensorFlow's threads on each rank")
        command.add_argument("--env", action="append", metavar="K=V", help="a variable that TensorFlow's import sees")
        command.add_argument("--oversubscribe", action="store_true", help="let several ranks, or clusters, share a GPU")
        command.add_argument(
            "--rebuild",
            choices=tuple(BY_OPTION),
            help="replace lost ranks without being asked (default: auto); shrink: without a host that was lost",
        )
        command.add_argument(
            "--framework", help="what ranks import first: tensorflow, torch, jax, none (default: auto)"
        )
        command.add_argument(
            "--standby",
            choices=standby.CHOICES,
            help="let other ranks import and wait, where memory allows, to take over when these end (default: auto)",
        )
        command.add_argument(
            "--idle-stop",
            metavar="TIME",
            help="end ranks that no cell has used for so long: 45s, 30m, 2h, 1d, never (default: as the profile says)",
        )
        command.add_argument(
            "--keep-variables",
            action="store_true",
            help="before idle ranks are ended, save what cells defined there: %%ddl restart loads it",
        )
        command.add_argument(
            "--sklearn", choices=SKLEARN_CHOICES, help="what accelerates scikit-learn on ranks (default: none)"
        )
        command.add_argument("--no-legacy", action="store_true", help="refuse what old programs wrote, as Keras 3 does")
    restart.add_argument("--ranks", action="store_true", help="the ranks, and not the kernel: what restart does anyway")
    start.add_argument("--name", help="the cluster's name (default: default)")
    start.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...", help="start them on these hosts, over SSH")
    start.add_argument("--hostfile", metavar="FILE", help="the same as a file, with lines such as: nodea slots=2")
    start.add_argument("--local", action="store_true", help="start them on this host, also within a batch job")
    start.add_argument("--ssh", metavar="COMMAND", help="how hosts are reached (default: ssh)")
    start.add_argument("--profile", metavar="NAME", help="start them at a place of the site's or yours")
    start.add_argument("--container", metavar="IMAGE", help="run them in this image of Apptainer's, e.g. ddl.sif")
    start.add_argument("--interface", metavar="NAME", help="the network interface by which hosts reach each other: ib0")
    start.add_argument("--launcher", metavar="mpiexec|jsrun", help="what starts them in an LSF job (default: mpiexec)")
    start.add_argument("--keep", action="store_true", help="let the ranks outlive this kernel")
    _add_topology(start)


def _add_ranks(commands: Any) -> None:
    """Add the commands on jobs, and on ranks that run."""
    add_submit_options(commands.add_parser("submit", help="send a batch job that brings ranks"))
    job_commands.add_jobs_options(commands.add_parser("jobs", help="list the batch jobs that bring ranks, or end one"))
    commands.add_parser("profiles", help="list the places that the site, or you, named")
    _add_topology(commands.add_parser("status", help="show the ranks"))
    stack_commands.add_stacks_options(commands.add_parser("stacks", help="show where each rank is now"))
    stack_commands.add_profile_options(
        commands.add_parser("profile", help="sample where each rank's time goes, and where ranks differ")
    )
    commands.add_parser("interrupt", help="release the ranks from what they run, another notebook's cell too")
    commands.add_parser("stop", help="end the ranks")
    commands.add_parser("doctor", help="check everything that a training cell takes, also while ranks run elsewhere")
    attach = commands.add_parser("attach", help="use ranks that another kernel started, or a batch job brings")
    attach.add_argument("name", nargs="?", default="default", help="the cluster's, or the job's number")
    _add_topology(attach)


def _add_cells(commands: Any) -> None:
    """Add the commands on where cells run, and on their variables."""
    auto = commands.add_parser("auto", help="run each cell without a magic on the ranks, and %%%%local ones here")
    auto.add_argument("mode", choices=("on", "off"), nargs="?", help="(default: say which it is)")
    push = commands.add_parser("push", help="set variables on the ranks to this notebook's values")
    pull = commands.add_parser("pull", help="set variables here to the ranks' values")
    for command in (push, pull):
        command.add_argument("names", nargs="+", metavar="NAME")
        command.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")


def _add_records(commands: Any) -> None:
    """Add the commands on what ran."""
    runs.add_runs_options(commands.add_parser("runs", help="list what was run, name and tag it, or delete old runs"))
    runs.add_run(commands.add_parser("show", help="show a run's output again"))
    runs.add_run(commands.add_parser("dashboard", help="show how a run trained"))
    board_command.add_options(
        commands.add_parser("tensorboard", help="show a run, or a folder of logs, in TensorBoard")
    )
    logs.add_logs_options(commands.add_parser("logs", help="print all that a run's ranks wrote"))
    timeline.add_timeline_options(
        commands.add_parser("timeline", help="say where the time of a run's steps went, from Horovod's timeline")
    )


def _add_topology(command: ArgumentParser) -> None:
    command.add_argument(
        "--topology",
        action="store_true",
        help="show too how the GPUs of each host are joined, and its network interfaces",
    )
