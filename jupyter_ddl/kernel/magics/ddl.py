"""Runs `%ddl`: parses the line, calls the session, shows the result.

Runs on: kernel.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from jupyter_ddl.cluster.planning import variables_from
from jupyter_ddl.commands import logs, profiles, runs, timeline
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics import board_command, job_commands, stack_commands, whole_notebook
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser
from jupyter_ddl.kernel.magics.magic_line import parsed, ranks_of, show_rebuild
from jupyter_ddl.kernel.rebuild_choice import BY_OPTION
from jupyter_ddl.paths import LEGACY_VARIABLE, SKLEARN_VARIABLE, STANDBY_VARIABLE
from jupyter_ddl.protocol import standby
from jupyter_ddl.protocol.frameworks import AUTO
from jupyter_ddl.protocol.number_texts import counted, time_left
from jupyter_ddl.views.held_ranks import held_sentence
from jupyter_ddl.views.idle_stop import idle_stop_sentence
from jupyter_ddl.views.progress import Progress
from jupyter_ddl.views.table import status_table
from jupyter_ddl.views.topology import topology_text

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_ddl.kernel.session import Session


@magics_class
class DdlMagics(Magics):
    """The magic that starts and ends ranks, and shows what ran."""

    # What this kernel's last start was asked for.
    _started: tuple[Session, Namespace] | None = None

    @no_var_expand
    @line_magic
    def ddl(self, line: str) -> None:
        """Start, see and end the ranks, and see what ran: %ddl COMMAND, as %ddl -h lists them, each with -h."""
        arguments = parsed(ddl_parser(), line or "-h")
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
            idle_stop=arguments.idle_stop,
            keep_variables=arguments.keep_variables,
            progress=progress,
        )
        self._started = session, arguments
        progress.conclude(
            "\n".join([session.note, *_idle_note(session), *_standby_note(session), *_tables(session, arguments)])
        )

    def _restart(self, arguments: Namespace) -> None:
        session = current.current()
        given = {
            name: getattr(arguments, name) for name in ("n", "gpus", "threads", "framework", "standby", "idle_stop")
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for switch in ("oversubscribe", "keep_variables"):
            if getattr(arguments, switch):
                changes[switch] = True
        if arguments.rebuild is not None:
            changes["rebuild"] = BY_OPTION[arguments.rebuild]
        progress = Progress()
        self._started = None
        replayed = session.restart(progress, env=_environment(arguments), **changes)
        progress.conclude(
            "\n".join(filter(None, [session.note, *_idle_note(session), replayed, status_table(session.ranks)]))
        )

    def _status(self, arguments: Namespace) -> None:
        session = current.current()
        busy = f"running {', '.join(session.busy)}" if session.busy else "idle"
        print(f"{session.name}: {counted(session.world_size, 'rank')}, {session.state or busy}")
        left_s = None if session.wall_time is None else session.wall_time.left_s()
        if session.wall_time is not None and left_s is not None:
            print(f"{session.wall_time.title}: {time_left(left_s)} left")
        held = held_sentence(session.held)
        if held is not None:
            print(held)
        print("\n".join([*_idle_note(session), *_tables(session, arguments)]))

    def _stop(self, _: Namespace) -> None:
        session = current.current()
        # One that is asked for again, or after an end as idle, ends nothing.
        had_none = session.describe()["state"] == "stopped"
        session.stop()
        ended = "no ranks run; %ddl restart starts some" if had_none else f"{counted(session.world_size, 'rank')} ended"
        print(f"{session.name}: {ended}")

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


def _idle_note(session: Session) -> list[str]:
    """Return when the ranks are ended as idle; nothing where they are not, or do not run."""
    count = session.idle_count
    if count is None or session.state is not None:
        return []
    ends_at_s = count.ends_at_s
    left_s = None if ends_at_s is None else max(0.0, ends_at_s - time.time())
    after_s, by = count.idle_stop.after_s, count.idle_stop.by
    return [idle_stop_sentence(after_s, by, left_s, keeps_variables=session.keeps_variables)]


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
    if arguments.sklearn is not None:
        variables[SKLEARN_VARIABLE] = arguments.sklearn
    return variables
