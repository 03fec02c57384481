"""%ddl and %%distributed: parse, call the session, show.

Runs on: kernel.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

from jupyter_ddl.cluster.spec import variables_from
from jupyter_ddl.commands import logs, runs
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics import stack_commands
from jupyter_ddl.paths import LEGACY_VARIABLE
from jupyter_ddl.protocol import auto_options, fit_options, stall_options
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.rank_sets import parse
from jupyter_ddl.views.progress import Progress
from jupyter_ddl.views.selection import current_publisher, for_environment, with_figures
from jupyter_ddl.views.table import status_table

if TYPE_CHECKING:
    from jupyter_ddl.kernel.run_follower import Follower
    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import Run
    from jupyter_ddl.views.view import View


class _Parser(ArgumentParser):
    """Argparse that raises, and that never ends the kernel."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{self.prog} takes what its usage says.", message, " ".join(self.format_usage().split()))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002  argparse's signature
        # Only -h comes here: argparse has printed the help.
        raise _HelpShown


class _HelpShown(Exception):
    pass


def _ddl_parser() -> _Parser:
    parser = _Parser(prog="%ddl", description="Start, see and end the ranks, and see what ran.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

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
            choices=("auto", "never"),
            help="replace lost ranks without being asked (default: auto)",
        )
        command.add_argument("--no-legacy", action="store_true", help="refuse what old programs wrote, as Keras 3 does")
    restart.add_argument("--ranks", action="store_true", help="the ranks, and not the kernel: what restart does anyway")
    start.add_argument("--name", help="the cluster's name (default: default)")
    start.add_argument("--keep", action="store_true", help="let the ranks outlive this kernel")

    commands.add_parser("status", help="show the ranks")
    stack_commands.add_stacks_options(commands.add_parser("stacks", help="show where each rank is now"))
    commands.add_parser("interrupt", help="release the ranks from what they run, another notebook's cell too")
    commands.add_parser("stop", help="end the ranks")
    commands.add_parser("doctor", help="check everything that a training cell takes, also while ranks run elsewhere")
    attach = commands.add_parser("attach", help="use ranks that another kernel started")
    attach.add_argument("name", nargs="?", default="default")
    push = commands.add_parser("push", help="set variables on the ranks to this notebook's values")
    pull = commands.add_parser("pull", help="set variables here to the ranks' values")
    for command in (push, pull):
        command.add_argument("names", nargs="+", metavar="NAME")
        command.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")

    runs.add_runs_options(commands.add_parser("runs", help="list what was run, or delete old runs"))
    runs.add_run(commands.add_parser("show", help="show a run's output again"))
    runs.add_run(commands.add_parser("dashboard", help="show how a run trained"))
    logs.add_logs_options(commands.add_parser("logs", help="print all that a run's ranks wrote"))
    return parser


@cache
def _cell_parser() -> _Parser:
    parser = _Parser(
        prog="%%distributed",
        description="Run the cell on the ranks.",
        formatter_class=RawDescriptionHelpFormatter,
        epilog="On each rank the names rank, local_rank and world_size are set.",
    )
    parser.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")
    parser.add_argument("--async", dest="background", action="store_true", help="do not wait for the cell's end")
    parser.add_argument("--timeout", type=float, metavar="S", help="release the ranks after S seconds")
    parser.add_argument(
        "--independent", action="store_true", help="a model of its own on each rank is meant: do not warn of it"
    )
    parser.add_argument(
        "--sample-every", type=float, default=1.0, metavar="S", help="how often ranks say how they fare; 0 for never"
    )
    parser.add_argument(
        "--setup", action="store_true", help="ranks that are started in place of these run the cell again"
    )
    stall_options.add_arguments(parser)
    fit_options.add_arguments(parser)
    auto_options.add_arguments(parser)
    return parser


@magics_class
class DdlMagics(Magics):
    """The magics of one kernel."""

    @no_var_expand
    @line_magic
    def ddl(self, line: str) -> None:
        """Start, see and end the ranks, and see what ran: %ddl COMMAND, as %ddl -h lists them, each with -h."""
        arguments = _parse(_ddl_parser(), line or "-h")
        if arguments is not None:
            getattr(self, f"_{arguments.command}")(arguments)

    @no_var_expand
    @cell_magic
    def distributed(self, line: str, cell: str) -> Follower | None:
        """Run the cell on the ranks, with the options of %%distributed -h."""
        arguments = _parse(_cell_parser(), line)
        if arguments is None:
            return None
        auto = auto_options.from_arguments(arguments)
        session = current.current()
        if auto is not None and arguments.explain:
            from jupyter_ddl.explain import explain, render

            print(render(explain(cell, world_size=session.world_size, **asdict(auto))))
            return None
        if not arguments.sample_every >= 0:
            raise InvalidInput(
                "Samples come every so many seconds.",
                f"--sample-every {arguments.sample_every:g}",
                "Pass a number above 0, or 0 for none.",
            )
        if arguments.timeout is not None and not arguments.timeout > 0:
            raise InvalidInput(
                "A timeout must be more than 0 seconds.", f"--timeout {arguments.timeout:g}", "Leave it out for none."
            )
        _tell_of_rebuild(session)
        options = CellOptions(
            timeout_s=arguments.timeout,
            independent=arguments.independent,
            auto=auto,
            sample_every_s=arguments.sample_every or None,
            stalls=stall_options.from_arguments(arguments),
            checkpoint=arguments.checkpoint,
            on_drift=arguments.on_drift,
            above=_lines_above(self.shell),
            count=_prompt(self.shell),
        )
        ranks = _ranks(arguments.ranks, session)
        with interrupts_noted():
            # An interrupt between the two would leave the ranks at it, and nobody following.
            follower = session.submit(
                cell,
                ranks,
                options,
                view=partial(_view, session, only_first_rank=auto is not None),
                setup=arguments.setup,
            )
            if arguments.background:
                follower.follow_in_background()
                return follower
            follower.wait()
        return None

    def _start(self, arguments: Namespace) -> None:
        progress = Progress()
        session = current.start(
            arguments.n,
            gpus=arguments.gpus,
            threads=arguments.threads,
            name=arguments.name,
            env=_environment(arguments),
            keep=arguments.keep,
            oversubscribe=arguments.oversubscribe,
            rebuild=arguments.rebuild != "never",
            progress=progress,
        )
        progress.conclude(f"{session.note}\n{status_table(session.ranks)}")

    def _restart(self, arguments: Namespace) -> None:
        session = current.current()
        given = {"n": arguments.n, "gpus": arguments.gpus, "threads": arguments.threads}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if arguments.oversubscribe:
            changes["oversubscribe"] = True
        if arguments.rebuild is not None:
            changes["rebuild"] = arguments.rebuild == "auto"
        progress = Progress()
        replayed = session.restart(progress, env=_environment(arguments), **changes)
        progress.conclude("\n".join(filter(None, [session.note, replayed, status_table(session.ranks)])))

    def _status(self, _: Namespace) -> None:
        session = current.current()
        busy = f"running {', '.join(session.busy)}" if session.busy else "idle"
        print(f"{session.name}: {session.world_size} ranks, {session.state or busy}")
        print(status_table(session.ranks))

    def _stop(self, _: Namespace) -> None:
        session = current.current()
        session.stop()
        print(f"{session.name}: {session.world_size} ranks ended")

    def _doctor(self, _: Namespace) -> None:
        from jupyter_ddl.doctor import print_report

        print_report()

    def _stacks(self, arguments: Namespace) -> None:
        session = current.current()
        stack_commands.print_stacks(session, _ranks(arguments.ranks, session))

    def _interrupt(self, _: Namespace) -> None:
        stack_commands.interrupt(current.current())

    def _attach(self, arguments: Namespace) -> None:
        session = current.attach(arguments.name)
        print(status_table(session.ranks))

    def _push(self, arguments: Namespace) -> None:
        session = current.current()
        assert self.shell is not None
        missing = [name for name in arguments.names if name not in self.shell.user_ns]
        if missing:
            raise InvalidInput(
                "A name to push must be defined in this notebook.", ", ".join(missing), "Define it first."
            )
        _tell_of_rebuild(session)
        session.push({name: self.shell.user_ns[name] for name in arguments.names}, _ranks(arguments.ranks, session))

    def _pull(self, arguments: Namespace) -> None:
        """Set each name to its value on the one rank asked for, or to a dict of rank -> value."""
        session = current.current()
        assert self.shell is not None
        _tell_of_rebuild(session)
        ranks = _ranks(arguments.ranks, session)
        for name in arguments.names:
            values = session.pull(name, ranks)
            self.shell.user_ns[name] = next(iter(values.values())) if len(values) == 1 else values

    def _runs(self, arguments: Namespace) -> None:
        runs.list_runs(arguments)

    def _show(self, arguments: Namespace) -> None:
        runs.show_run(arguments, in_notebook=True)

    def _dashboard(self, arguments: Namespace) -> None:
        runs.show_dashboard(arguments)

    def _logs(self, arguments: Namespace) -> None:
        logs.print_logs(arguments, in_notebook=True)


def _parse(parser: _Parser, line: str) -> Namespace | None:
    try:
        return parser.parse_args(_split(line))
    except _HelpShown:
        return None
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            "Quotes must be closed.", line, "Write 'a b' or \"a b\" for a value with a space."
        ) from error


def _split(line: str) -> list[str]:
    """Split a line as a shell does, but for backslashes in `logs`: there they belong to a regular expression."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if line.split(maxsplit=1)[:1] == ["logs"]:
        lexer.escape = ""
    return list(lexer)


def _ranks(text: str | None, session: Session) -> tuple[int, ...] | None:
    return None if text is None else parse(text, session.world_size)


def _tell_of_rebuild(session: Session) -> None:
    """Show how lost ranks are being replaced, until they are, and what came of it."""
    progress = Progress()
    told = session.wait_rebuilt(progress)
    if told is not None:
        progress.conclude(told)


def _environment(arguments: Namespace) -> dict[str, str]:
    variables = variables_from(arguments.env or [])
    if arguments.no_legacy:
        variables[LEGACY_VARIABLE] = "0"
    return variables


def _view(session: Session, run: Run, *, only_first_rank: bool) -> View:
    publisher = current_publisher()
    output = for_environment(publisher, run.ranks, f"%ddl logs {run.id}", only_first_rank=only_first_rank)
    return with_figures(publisher, output, session.ranks, session.single_rank_samples_per_s)


def _prompt(shell: Any) -> int:
    """Return the number of the prompt of the cell that runs."""
    count: int = shell.execution_count
    return count


def _lines_above(shell: Any) -> int:
    """Return how many lines of the notebook's cell stand above the code: the magic's, and empty ones above that."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    content = parent.get("content") if isinstance(parent, dict) else None
    code = content.get("code") if isinstance(content, dict) else None
    if not isinstance(code, str) or not code.lstrip().startswith("%%distributed"):
        # A terminal, or another magic that ran this one.
        return 1
    return code[: len(code) - len(code.lstrip())].count("\n") + 1
