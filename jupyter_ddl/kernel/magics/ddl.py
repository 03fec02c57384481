"""Runs `%ddl`: parses the line, calls the session, shows the result.

Runs on: kernel.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from jupyter_ddl.cluster.planning import variables_from
from jupyter_ddl.cluster.submit_options import add_submit_options
from jupyter_ddl.commands import logs, profiles, runs, timeline
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics import board_command, job_commands, stack_commands, whole_notebook
from jupyter_ddl.kernel.magics.magic_line import MagicParser, parsed, ranks_of, show_rebuild
from jupyter_ddl.kernel.rebuild_choice import BY_OPTION
from jupyter_ddl.paths import LEGACY_VARIABLE, STANDBY_VARIABLE
from jupyter_ddl.protocol import standby
from jupyter_ddl.protocol.frameworks import AUTO
from jupyter_ddl.protocol.number_texts import counted, time_left
from jupyter_ddl.views.held_ranks import held_sentence
from jupyter_ddl.views.progress import Progress
from jupyter_ddl.views.table import status_table
from jupyter_ddl.views.topology import topology_text

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_ddl.kernel.session import Session


def _ddl_parser() -> MagicParser:
    parser = MagicParser(prog="%ddl", description="Start, see and end the ranks, and see what ran.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=MagicParser)

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

    add_submit_options(commands.add_parser("submit", help="send a batch job that brings ranks"))
    job_commands.add_jobs_options(commands.add_parser("jobs", help="list the batch jobs that bring ranks, or end one"))
    commands.add_parser("profiles", help="list the places that the site, or you, named")
    status = commands.add_parser("status", help="show the ranks")
    stack_commands.add_stacks_options(commands.add_parser("stacks", help="show where each rank is now"))
    stack_commands.add_profile_options(
        commands.add_parser("profile", help="sample where each rank's time goes, and where ranks differ")
    )
    commands.add_parser("interrupt", help="release the ranks from what they run, another notebook's cell too")
    commands.add_parser("stop", help="end the ranks")
    commands.add_parser("doctor", help="check everything that a training cell takes, also while ranks run elsewhere")
    attach = commands.add_parser("attach", help="use ranks that another kernel started, or a batch job brings")
    attach.add_argument("name", nargs="?", default="default", help="the cluster's, or the job's number")
    for command in (start, status, attach):
        command.add_argument(
            "--topology",
            action="store_true",
            help="show too how the GPUs of each host are joined, and its network interfaces",
        )
    auto = commands.add_parser("auto", help="run each cell without a magic on the ranks, and %%%%local ones here")
    auto.add_argument("mode", choices=("on", "off"), nargs="?", help="(default: say which it is)")
    push = commands.add_parser("push", help="set variables on the ranks to this notebook's values")
    pull = commands.add_parser("pull", help="set variables here to the ranks' values")
    for command in (push, pull):
        command.add_argument("names", nargs="+", metavar="NAME")
        command.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")

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
    return parser


@magics_class
class DdlMagics(Magics):
    """The magic that starts and ends ranks, and shows what ran."""

    # What this kernel's last start was asked for.
    _started: tuple[Session, Namespace] | None = None

    @no_var_expand
    @line_magic
    def ddl(self, line: str) -> None:
        """Start, see and end the ranks, and see what ran: %ddl COMMAND, as %ddl -h lists them, each with -h."""
        arguments = parsed(_ddl_parser(), line or "-h")
        if arguments is not None:
            getattr(self, f"_{arguments.command}")(arguments)

    def _start(self, arguments: Namespace) -> None:
        if self._started is not None and self._started == (current.sessions().used, arguments):
            session = self._started[0]
            if session.state is None:
                # Run All after a start from the panel, or a second time.
                stay = (
                    "runs already, by the same line: its ranks stay. %ddl restart replaces them, %ddl stop ends them."
                )
                print(f"{session.name} {stay}\n" + "\n".join(_tables(session, arguments)))
                return
        progress = Progress()
        session = current.start(
            arguments.n,
            gpus=arguments.gpus,
            threads=arguments.threads,
            name=arguments.name,
            env=_environment(arguments),
            keep=arguments.keep,
            oversubscribe=arguments.oversubscribe,
            hosts=arguments.hosts,
            hostfile=arguments.hostfile,
            ssh=arguments.ssh,
            interface=arguments.interface,
            local=arguments.local,
            profile=arguments.profile,
            container=arguments.container,
            launcher=arguments.launcher,
            rebuild=BY_OPTION[arguments.rebuild or "auto"],
            framework=arguments.framework or AUTO,
            standby=arguments.standby or os.environ.get(STANDBY_VARIABLE) or standby.AUTO,
            progress=progress,
        )
        self._started = session, arguments
        progress.conclude("\n".join([session.note, *_standby_note(session), *_tables(session, arguments)]))

    def _restart(self, arguments: Namespace) -> None:
        session = current.current()
        given = {name: getattr(arguments, name) for name in ("n", "gpus", "threads", "framework", "standby")}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if arguments.oversubscribe:
            changes["oversubscribe"] = True
        if arguments.rebuild is not None:
            changes["rebuild"] = BY_OPTION[arguments.rebuild]
        progress = Progress()
        self._started = None
        replayed = session.restart(progress, env=_environment(arguments), **changes)
        progress.conclude("\n".join(filter(None, [session.note, replayed, status_table(session.ranks)])))

    def _status(self, arguments: Namespace) -> None:
        session = current.current()
        busy = f"running {', '.join(session.busy)}" if session.busy else "idle"
        print(f"{session.name}: {session.world_size} ranks, {session.state or busy}")
        left_s = None if session.wall_time is None else session.wall_time.left_s()
        if session.wall_time is not None and left_s is not None:
            print(f"{session.wall_time.title}: {time_left(left_s)} left")
        held = held_sentence(session.held)
        if held is not None:
            print(held)
        print("\n".join(_tables(session, arguments)))

    def _stop(self, _: Namespace) -> None:
        session = current.current()
        session.stop()
        print(f"{session.name}: {session.world_size} ranks ended")

    def _submit(self, arguments: Namespace) -> None:
        job_commands.submit(arguments)

    def _jobs(self, arguments: Namespace) -> None:
        job_commands.jobs(arguments)

    def _profiles(self, _: Namespace) -> None:
        print(profiles.listing())

    def _doctor(self, _: Namespace) -> None:
        from jupyter_ddl.doctor import print_report

        print_report()

    def _stacks(self, arguments: Namespace) -> None:
        session = current.current()
        stack_commands.print_stacks(session, ranks_of(arguments.ranks, session))

    def _profile(self, arguments: Namespace) -> None:
        session = current.current()
        stack_commands.print_profile(session, ranks_of(arguments.ranks, session), arguments.seconds, arguments.hz)

    def _interrupt(self, _: Namespace) -> None:
        stack_commands.interrupt(current.current())

    def _attach(self, arguments: Namespace) -> None:
        progress = Progress()
        session = current.attach(arguments.name, progress)
        progress.conclude("\n".join(_tables(session, arguments)))

    def _auto(self, arguments: Namespace) -> None:
        assert self.shell is not None
        mode = whole_notebook.installed(self.shell)
        if arguments.mode is not None:
            mode.is_on = arguments.mode == "on"
            # JupyterLab's toolbar shows it.
            current.sessions().observers.notify()
        print(mode)

    def _push(self, arguments: Namespace) -> None:
        session = current.current()
        assert self.shell is not None
        missing = [name for name in arguments.names if name not in self.shell.user_ns]
        if missing:
            raise InvalidInput(
                "A name to push must be defined in this notebook.", ", ".join(missing), "Define it first."
            )
        show_rebuild(session)
        session.push({name: self.shell.user_ns[name] for name in arguments.names}, ranks_of(arguments.ranks, session))

    def _pull(self, arguments: Namespace) -> None:
        """Set each name to its value on the one rank asked for, or to a dict of rank -> value."""
        session = current.current()
        assert self.shell is not None
        show_rebuild(session)
        ranks = ranks_of(arguments.ranks, session)
        for name in arguments.names:
            values = session.pull(name, ranks)
            self.shell.user_ns[name] = next(iter(values.values())) if len(values) == 1 else values

    def _runs(self, arguments: Namespace) -> None:
        runs.list_runs(arguments)

    def _show(self, arguments: Namespace) -> None:
        runs.show_run(arguments, in_notebook=True)

    def _dashboard(self, arguments: Namespace) -> None:
        runs.show_dashboard(arguments)

    def _tensorboard(self, arguments: Namespace) -> None:
        board_command.show(arguments)

    def _logs(self, arguments: Namespace) -> None:
        logs.print_logs(arguments, in_notebook=True)

    def _timeline(self, arguments: Namespace) -> None:
        timeline.show_timeline(arguments)


def _tables(session: Session, arguments: Namespace) -> list[str]:
    """Return the table of the ranks, and where asked what their hosts have."""
    return [status_table(session.ranks), *([f"\n{topology_text(session.topology())}"] if arguments.topology else [])]


def _standby_note(session: Session) -> list[str]:
    """Return what is said of the ranks that will stand by; nothing where none will."""
    if not session.has_standby:
        return []
    more = counted(session.world_size, "more rank")
    return [f"Once idle, {more} import and wait to take over, where memory allows (--standby never: none)."]


def _environment(arguments: Namespace) -> dict[str, str]:
    variables = variables_from(arguments.env or [])
    if arguments.no_legacy:
        variables[LEGACY_VARIABLE] = "0"
    return variables
