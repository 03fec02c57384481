"""Carries out a browser's controls of this kernel, also while its main thread is busy.

Runs on: kernel.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster.rank_profiles import HZ, SECONDS
from jupyter_ddl.errors import ClusterError, DdlError, HostUnfit, InvalidInput
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.profiling import take_profile
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.hub_messages import Answer
from jupyter_ddl.protocol.rank_sets import parse
from jupyter_ddl.views.profile_text import panel_profile
from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.protocol.hub_messages import Control

    Reply = Callable[[Answer], None]

# Each takes a thread for as long as it lasts.
MAX_AT_A_TIME = 16
_MAX_CHARACTERS = 10_000
_MAX_CODE_CHARACTERS = 200_000


class Controls:
    """The controls of the session that the magics use."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(MAX_AT_A_TIME)
        self._deeds: dict[str, Callable[[Session, dict[str, Any]], Any]] = {
            "interrupt": _interrupt,
            "stop": _stop,
            "restart": _restart,
            "keep": _keep,
            "stacks": _stacks,
            "profile": _profile,
            "complete": _complete,
            "inspect": _inspect,
            "debug": _debug,
        }

    def take(self, control: Control, reply: Reply) -> None:
        """Begin a control in a thread, and return; an interrupt is done at once, in this thread.

        Args:
            control: what is asked.
            reply: takes the answer, in any thread.
        """
        if control.do == "interrupt":
            self._do(control, reply)
        elif self._slots.acquire(blocking=False):
            thread = Supervised(self._do_and_free, f"jupyter_ddl {control.do[:20]}", lambda _: None, (control, reply))
            try:
                thread.start()
            except HostUnfit as problem:
                self._slots.release()
                reply(Answer(control.id, error=str(problem)))
        else:
            error = f"A kernel does {MAX_AT_A_TIME} controls at a time. Received: one more. Wait for an answer."
            reply(Answer(control.id, error=error))

    def _do_and_free(self, control: Control, reply: Reply) -> None:
        try:
            self._do(control, reply)
        finally:
            self._slots.release()

    def _do(self, control: Control, reply: Reply) -> None:
        answer = Answer(control.id, error="It was not done, for a reason that the kernel has printed.")
        try:
            deed = self._deeds.get(control.do)
            if deed is None:
                raise InvalidInput(
                    f"A control is one of {', '.join(self._deeds)}.",
                    repr(control.do[:80]),
                    "Reload the page, which may be of another version.",
                )
            answer = Answer(control.id, deed(_session(control.do), control.arguments))
        except (DdlError, OSError) as error:
            answer = Answer(control.id, error=str(error)[:_MAX_CHARACTERS])
        except Exception:  # noqa: BLE001  an error of ours: it is printed, and the next control finds this thread alive
            sys.excepthook(*sys.exc_info())
        except BaseException as error:
            # SystemExit of a setup cell, or an interrupt that came here: the thread ends, the browser gets an answer.
            answer = Answer(control.id, error=described(error)[:_MAX_CHARACTERS])
            raise
        finally:
            try:
                reply(answer)
            except (TypeError, ValueError, RecursionError) as error:
                # What JSON cannot hold.
                reply(Answer(control.id, error=described(error)[:_MAX_CHARACTERS]))


def _session(do: str) -> Session:
    """Return the session that a control is for: a stop ends a start too, and a job that waits in its queue."""
    sessions = current.sessions()
    session = sessions.being_started()
    if session is not None and do == "stop":
        return session
    starting = None if session is None else session.describe()
    try:
        return sessions.current()
    except ClusterError:
        if starting is None:
            raise
        raise ClusterError(
            f"Ranks must have been started. Received: {starting['name']!r}, which is still starting: "
            f"{starting['step']}. Wait for its ranks, or stop it."
        ) from None


def _interrupt(session: Session, _: dict[str, Any]) -> None:
    session.interrupt("the panel")


def _stop(session: Session, _: dict[str, Any]) -> None:
    session.stop()


def _restart(session: Session, _: dict[str, Any]) -> str:
    """Return the report of the setup cells and of variables that were kept; the next cell shows it."""
    return session.restart(reports_later=True)


def _keep(session: Session, _: dict[str, Any]) -> None:
    """Count from now on until idle ranks are ended.

    Raises:
        ClusterError: they have ended, or are not ended as idle.
    """
    count = session.idle_count
    if session.state is not None or count is None:
        raise ClusterError(f"Ranks are kept while they run. Received: {session.state or 'ranks that stay anyway'}.")
    count.restart()


def _stacks(session: Session, arguments: dict[str, Any]) -> dict[str, Any]:
    ranks = _argument(arguments, "ranks", str, "")
    found = session.stacks(parse(ranks, session.world_size) if ranks else None).values()
    return {"text": render_stacks(found, session.world_size), "ranks": [encode(rank) for rank in found]}


def _profile(session: Session, arguments: dict[str, Any]) -> dict[str, Any]:
    ranks, seconds = _argument(arguments, "ranks", str, ""), _argument(arguments, "seconds", int, int(SECONDS))
    taken = take_profile(session, parse(ranks, session.world_size) if ranks else None, seconds, HZ)
    return panel_profile(taken.profile, taken.kept)


def _complete(session: Session, arguments: dict[str, Any]) -> dict[str, Any]:
    return session.look_up("complete", *_place(arguments), rank=_rank(session, arguments))


def _inspect(session: Session, arguments: dict[str, Any]) -> dict[str, Any]:
    detail = _argument(arguments, "detail", int, 0)
    return session.look_up("inspect", *_place(arguments), detail, _rank(session, arguments))


def _debug(session: Session, arguments: dict[str, Any]) -> dict[str, Any]:
    return session.debug(_rank(session, arguments), _argument(arguments, "message", dict, None))


def _rank(session: Session, arguments: dict[str, Any]) -> int:
    """Return the rank that is asked; 0 where none is named."""
    (rank,) = parse(str(_argument(arguments, "rank", int, 0)), session.world_size)
    return rank


def _place(arguments: dict[str, Any]) -> tuple[str, int]:
    code = _argument(arguments, "code", str, None)
    cursor = _argument(arguments, "cursor", int, None)
    if not 0 <= cursor <= len(code) <= _MAX_CODE_CHARACTERS:
        rule = f"A cursor is within code of at most {_MAX_CODE_CHARACTERS:,} characters."
        raise InvalidInput(rule, f"{cursor} in {len(code)}", "Count in characters, from 0.")
    return code, cursor


def _argument(arguments: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = arguments.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidInput(f"{name} of a control is of type {kind.__name__}.", type(value).__name__, "Send one.")
    return value
