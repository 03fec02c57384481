"""Distributed deep learning from a notebook cell.

    %load_ext jupyter_ddl       the magics %ddl and %%distributed
    jupyter_ddl.start(n=2)      the same in Python: a Session
    jupyter_ddl.auto()          in a script on MPI ranks: distribute it as it stands
    jupyter_ddl.report(...)     on a rank, in a custom training loop: report a step

Importing this package loads no TensorFlow, Keras, Horovod, MPI or NVML, and touches no GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_ddl.engine.report import report
    from jupyter_ddl.kernel.current import attach, start, submit
    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.rank.auto import auto

__version__ = "0.1.0.dev0"
__all__ = ["Session", "attach", "auto", "report", "start", "submit"]
_OF_SESSIONS = ("Session", "attach", "start", "submit")


def __getattr__(name: str) -> Any:
    # The ranks and the lease import this package too, and need none of the session's imports.
    if name in _OF_SESSIONS:
        from jupyter_ddl.kernel import current

        return getattr(current, name)
    if name == "auto":
        from jupyter_ddl.rank.auto import auto

        return auto
    if name == "report":
        from jupyter_ddl.engine.report import report

        return report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add %ddl and %%distributed: `%load_ext jupyter_ddl`."""
    from jupyter_ddl.kernel import hub_link
    from jupyter_ddl.kernel.magics import completion, inspection
    from jupyter_ddl.kernel.magics.ddl import DdlMagics
    from jupyter_ddl.kernel.magics.distributed import DistributedMagics

    shell.register_magics(DdlMagics(shell), DistributedMagics(shell))
    completion.install(shell)
    inspection.install(shell)
    hub_link.begin(shell)
