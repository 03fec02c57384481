"""Every error that jupyter_ddl raises, in one tree.

Each says the rule, what was received, and the remedy.

    DdlError
    ├── InvalidInput (ValueError)               what the user passed breaks a rule
    ├── FolderNotWritable (OSError)             a folder of ours cannot be made or written
    │   └── FolderNotPrivate                    another user could change what is in it, or replace it
    ├── ClusterError
    │   ├── HostUnfit                           this host lacks what ranks take: loopback, room on a disk
    │   ├── NoCluster                           nothing is running, or nothing of that name
    │   ├── HubRefused                          JupyterHub, or a server of it, does not allow what was asked
    │   ├── ClusterStartFailed                  the ranks did not come up; says what mpiexec printed
    │   └── ClusterLost                         a running cluster's ranks or controller went away
    ├── RunError                                a cell did not finish well
    │   ├── RankError                           one or more ranks raised; headed "Rank 1 of 2 on host"
    │   ├── RunTimedOut (TimeoutError)          `--timeout` passed, and the ranks were released
    │   ├── RunStalled                          `--on-stall abort`, and some ranks waited for others
    │   ├── RunInterrupted (KeyboardInterrupt)  the user interrupted the run, and the ranks were released
    │   └── SetupFailed                         a setup cell raised on the ranks that replaced lost ones
    ├── RanksOutOfSync                          raised on every rank: they hold different weights
    ├── TransferFailed (TypeError)              a value cannot be pushed or pulled
    ├── DownloadFailed                          a data set could not be fetched
    ├── BuildError                              Horovod could not be built; `log` names the full log
    ├── DashboardMissing                        the browser's part of the dashboard was not built
    └── DemoFailed                              the demo's notebook raised, or did not train

    RankTraceback (Exception)                   the cause of a RankError, with the ranks' tracebacks

A rank's own exception is not rebuilt in the kernel (its class may not exist there): RankError carries its name,
message and traceback as text, and has a RankTraceback as its cause, which any Python prints above it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


# IPython colours a rank's traceback.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class DdlError(Exception):
    """Base of every error that jupyter_ddl raises on purpose.

    A notebook and the command line show its text alone: a traceback of ours would bury the remedy.
    """

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback. IPython looks this name up."""
        return [f"{type(self).__name__}: {self}"]

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception's own way calls the class with the text alone, which most classes below do not take. joblib and
        # multiprocessing send errors so.
        return _with_text, (type(self), self.args), vars(self)


def _with_text(kind: type[DdlError], args: tuple[Any, ...]) -> DdlError:
    error = kind.__new__(kind)
    error.args = args
    return error


class InvalidInput(DdlError, ValueError):
    """What the user passed breaks a rule."""

    def __init__(self, rule: str, received: object, remedy: str) -> None:
        self.rule = rule
        self.received = received
        self.remedy = remedy
        super().__init__(f"{rule} Received: {received}. {remedy}")


class FolderNotWritable(DdlError, OSError):
    """A folder of ours cannot be made or written to."""

    def __init__(self, path: Path, variable: str, reason: str) -> None:
        self.path = path
        DdlError.__init__(
            self,
            f"jupyter_ddl must be able to write to its folder. Received: {path} ({reason}). "
            f"Set {variable} to a folder that you may write to.",
        )

    def __str__(self) -> str:
        # OSError.__str__ would format (errno, strerror), which this error does not have.
        return str(self.args[0])


class FolderNotPrivate(FolderNotWritable):
    """A folder of ours is not this user's alone: who can write to it can run code as this user."""

    def __init__(self, path: Path, variable: str, reason: str, remedy: str | None) -> None:
        self.path = path
        mend = f"Look at what is in it and run `{remedy}`, or set" if remedy else "Set"
        DdlError.__init__(
            self,
            "A folder of jupyter_ddl's must be this user's, and no other user may write to it or to a folder above it. "
            f"Received: {path} ({reason}). {mend} {variable} to a folder that is yours alone.",
        )


class ClusterError(DdlError):
    """Something is wrong with the cluster, not with a cell."""


class HostUnfit(ClusterError):
    """This host lacks something that ranks take, so that none can start."""

    def __init__(self, rule: str, received: str, remedy: str) -> None:
        self.rule = rule
        self.received = received
        self.remedy = remedy
        super().__init__(f"{rule} Received: {received}. {remedy}")


class NoCluster(ClusterError):
    """Nothing is running, or nothing of that name."""


class HubRefused(ClusterError):
    """JupyterHub, or a server of it, does not allow what was asked."""


class ClusterStartFailed(ClusterError):
    """The ranks did not come up."""


class ClusterLost(ClusterError):
    """A running cluster's ranks or controller went away."""


class RunError(DdlError):
    """A cell did not finish well."""


class RankFailure(Protocol):
    """What one rank raised. `protocol.events.RankFailed` is one; errors lie below events, and read only this of it."""

    @property
    def rank(self) -> int:
        """Who raised it."""

    @property
    def host(self) -> str:
        """Where that rank runs."""

    @property
    def name(self) -> str:
        """The exception's class, e.g. "ValueError"."""

    @property
    def message(self) -> str:
        """Its text."""

    @property
    def traceback(self) -> tuple[str, ...]:
        """Lines, with ANSI colours as IPython shows them."""

    @property
    def given(self) -> str | None:
        """What the rank gave to a collective that was refused because the ranks gave different things."""


class RankError(RunError):
    """One or more ranks raised.

    Attributes:
        failures: what each failed rank reported, first cause first; ranks that were only released are not in it.
        aborted: the ranks that were released because of it, in order.
        report: what a notebook shows: each different traceback of a rank once.
    """

    report = ""

    def __init__(self, failures: Sequence[RankFailure], aborted: Sequence[int], world_size: int) -> None:
        self.failures = tuple(failures)
        self.aborted = tuple(aborted)
        first = self.failures[0]
        self.rank = first.rank
        self.world_size = world_size
        super().__init__(f"Rank {first.rank} of {world_size} on {first.host}: {first.name}: {first.message}")

    def _render_traceback_(self) -> list[str]:
        return [self.report] if self.report else super()._render_traceback_()


class RankTraceback(Exception):
    """What ranks raised, with their own tracebacks: the cause of a RankError.

    A notebook shows `RankError.report`, which says the same with colours.

    Source: `concurrent.futures.process._RemoteTraceback`, which mpi4py.futures follows too.
    """

    def __init__(self, report: str) -> None:
        self.text = _COLOURS.sub("", report)
        super().__init__(self.text)

    def __str__(self) -> str:
        return f'\n"""\n{self.text}\n"""'


class RunTimedOut(RunError, TimeoutError):
    """The run took longer than its timeout, and its ranks were released."""


class RunStalled(RunError):
    """Some ranks waited for others that did not come, and all were released."""


class RunInterrupted(RunError, KeyboardInterrupt):
    """The user interrupted the run, and its ranks were released."""


class SetupFailed(RunError):
    """A setup cell raised on ranks that were started in place of others."""


class RanksOutOfSync(DdlError):
    """The ranks hold different weights, so each has trained a model of its own.

    Attributes:
        ranks: those that differ from most others.
        weight: the first weight that differs, by its path in the first rank's model, e.g. "dense/kernel".

    Example:
        >>> try:
        ...     checksum = hvd.check_in_sync(model)
        ... except hvd.RanksOutOfSync as error:
        ...     print(error.ranks, error.weight)
    """

    def __init__(self, text: str, ranks: Sequence[int], weight: str) -> None:
        self.ranks = list(ranks)
        self.weight = weight
        super().__init__(text)


class TransferFailed(DdlError, TypeError):
    """A value cannot be pushed to, or pulled from, the ranks."""


class DownloadFailed(DdlError):
    """A file could not be fetched: there is no network, it is too slow, or what came is not the file."""


class BuildError(DdlError):
    """Horovod could not be built for the TensorFlow that is installed.

    Attributes:
        log: the file with the compiler's whole output, where the build got that far.
    """

    def __init__(self, rule: str, received: object, remedy: str, log: Path | None = None) -> None:
        self.rule = rule
        self.received = received
        self.remedy = remedy
        self.log = log
        tail = f" Full log: {log}" if log else ""
        super().__init__(f"{rule} Received: {received}. {remedy}{tail}")


class DashboardMissing(DdlError):
    """The browser's part of the dashboard was not built."""


class DemoFailed(DdlError):
    """The demo's notebook raised, or what it came to is no training."""
