"""Distributed deep learning from a notebook cell.

    %load_ext jupyter_ddl       the magics %ddl and %%distributed
    jupyter_ddl.start(n=2)      the same in Python: a Session
    jupyter_ddl.parallel_backend()  a block in which joblib's tasks, scikit-learn's too, run on the ranks
    jupyter_ddl.auto()          in a script on MPI ranks: distribute it as it stands
    jupyter_ddl.report(...)     on a rank, in a custom training loop: report a step
    jupyter_ddl.log_params(...) on ranks, and in the kernel: what the run is to be known by

Importing this package loads no TensorFlow, Keras, Horovod, MPI or NVML, and touches no GPU.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_ddl.engine.report import report
    from jupyter_ddl.kernel.current import attach, start, submit
    from jupyter_ddl.kernel.joblib_backend.block import parallel_backend
    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.rank.auto import auto

__version__ = "0.1.0.dev0"
__all__ = ["Session", "attach", "auto", "log_params", "parallel_backend", "report", "start", "submit"]
_OF_SESSIONS = ("Session", "attach", "start", "submit")


def __getattr__(name: str) -> Any:
    # The ranks and the lease import this package too, and need none of the session's imports.
    if name in _OF_SESSIONS:
        from jupyter_ddl.kernel import current

        return getattr(current, name)
    if name == "parallel_backend":
        from jupyter_ddl.kernel.joblib_backend.block import parallel_backend

        return parallel_backend
    if name == "auto":
        from jupyter_ddl.rank.auto import auto

        return auto
    if name == "report":
        from jupyter_ddl.engine.report import report

        return report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def log_params(parameters: Mapping[str, Any] | None = None, /, **more: Any) -> None:
    """Log what a run is to be known by: on ranks for the run that lasts, in the kernel for its last one.

    A name that is logged again gets the new value. In plain Python nothing is kept.

    Args:
        parameters: name -> a number, True, False, None or a text; one value of NumPy, Keras or TensorFlow too.
        more: likewise.

    Raises:
        InvalidInput: one is something else, or too long; there are more than 200; the kernel has run nothing on ranks.

    Example:
        >>> jupyter_ddl.log_params(dataset="mnist", augmented=True)
    """
    from jupyter_ddl.engine import rank_state

    given = {**(parameters or {}), **more}
    state = rank_state.of_process()
    if state is not None:
        state.meter.parameters.log(given)
        return
    from jupyter_ddl.kernel.parameters import log

    log(given)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add %ddl and %%distributed: `%load_ext jupyter_ddl`."""
    # A rank has loaded it; a kernel need not, for half a second.
    rank_state = sys.modules.get("jupyter_ddl.engine.rank_state")
    if rank_state is not None and rank_state.of_process() is not None:
        from jupyter_ddl.engine.disabled_calls import refuse_magics

        refuse_magics()
    from jupyter_ddl.kernel import hub_link
    from jupyter_ddl.kernel.magics import completion, inspection, whole_notebook
    from jupyter_ddl.kernel.magics.ddl import DdlMagics
    from jupyter_ddl.kernel.magics.distributed import DistributedMagics

    shell.register_magics(DdlMagics(shell), DistributedMagics(shell))
    completion.install(shell)
    inspection.install(shell)
    whole_notebook.begin(shell)
    hub_link.begin(shell)
