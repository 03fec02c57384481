"""Adapts IPython to a rank: output becomes events, a traceback goes into the rank's report, and `exit` is refused.

Runs on: every rank.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from ipykernel.zmqshell import ZMQInteractiveShell
from ipyparallel.engine.kernel import IPythonParallelKernel
from IPython.core.magics.execution import ExecutionMagics
from traitlets import Type

from jupyter_ddl.engine.debugging.pydevd_link import settings_of_pydevd
from jupyter_ddl.engine.disabled_calls import refuse_exit
from jupyter_ddl.engine.display import RankDisplayHook, RankDisplayPublisher
from jupyter_ddl.engine.error_text import bounded, is_recursion, plain_traceback, text_of
from jupyter_ddl.protocol.requests import MESSAGE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from jupyter_ddl.engine.display import Outlet


class RankShell(ZMQInteractiveShell):
    """The shell in which a rank's cells run.

    Attributes:
        traceback_lines: of the last exception that IPython showed.
        captured_error: what the code of %%capture has raised in this cell.
        transformed: a cell that is about to run, and its code as Python; None where it is not known yet.
        when_raised: called when a cell's own code has raised, before its traceback is formatted; returns whether
            Python's own, plain traceback will do. None before the guard is there.
    """

    displayhook_class = Type(RankDisplayHook)
    display_pub_class = Type(RankDisplayPublisher)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.traceback_lines: list[str] = []
        self.captured_error: BaseException | None = None
        self.transformed: tuple[str, str] | None = None
        self.when_raised: Callable[[BaseException | None], bool] | None = None
        super().__init__(*arguments, **options)

    def send_to(self, outlet: Outlet) -> None:
        """Send rich output to `outlet` from now on."""
        publisher, hook = self.display_pub, self.displayhook
        assert isinstance(publisher, RankDisplayPublisher)
        assert isinstance(hook, RankDisplayHook)
        publisher.outlet = hook.outlet = outlet

        def show_page(_shell: Any, page: str | dict[str, Any], *_arguments: Any, **_options: Any) -> None:
            bundle: dict[str, Any] = page if isinstance(page, dict) else {"text/plain": page}
            outlet.show("display", bundle.get("data", bundle))

        # `len?`: ipykernel puts the page into the reply's payload, and a rank sends no reply.
        self.set_hook("show_in_pager", show_page, 0)

    def ask_exit(self) -> NoReturn:
        """Refuse. `exit`, `quit` and %exit all call this; ipykernel's stops the engine's event loop."""
        refuse_exit()

    def new_main_mod(self, filename: str, modname: str) -> Any:
        """Return the module `__main__` for %run, with what Python gives every module.

        IPython empties the one of the program's run before, and `multiprocessing` asks for `__spec__` where it starts
        a process by spawn or forkserver. Source: IPython 9.18, InteractiveShell.new_main_mod.
        """
        main = super().new_main_mod(filename, modname)
        for name in ("__spec__", "__loader__", "__package__", "__doc__"):
            vars(main).setdefault(name, None)
        return main

    def safe_execfile(self, fname: Any, *where: Any, exit_ignore: bool = False, **options: Any) -> None:
        """Run a program for %run, and raise what it raises.

        IPython's shows it, and the cell ends well: other ranks would wait for this one, and an interrupt would be lost.
        """
        try:
            super().safe_execfile(fname, *where, exit_ignore=exit_ignore, **{**options, "raise_exceptions": True})
        except SystemExit:
            if not exit_ignore:
                raise

    def safe_execfile_ipy(self, fname: Any, shell_futures: bool = False, raise_exceptions: bool = True) -> None:  # noqa: ARG002
        """Run a notebook, or a file with magics, for %run, and raise what it raises."""
        super().safe_execfile_ipy(fname, shell_futures=shell_futures, raise_exceptions=True)

    def safe_run_module(self, mod_name: str, where: dict[str, Any]) -> None:
        """Run a module for `%run -m`, and raise what it raises."""
        try:
            where.update(runpy.run_module(str(mod_name), run_name="__main__", alter_sys=True))
        except SystemExit as status:
            if status.code:
                raise

    def transform_cell(self, raw_cell: str) -> str:
        """Return a cell's code as Python; once what `transformed` has for it, since IPython's `run_cell` asks again."""
        known, self.transformed = self.transformed, None
        return known[1] if known is not None and known[0] is raw_cell else super().transform_cell(raw_cell)

    def run_cell(self, *arguments: Any, **options: Any) -> Any:
        """Run code as a cell, and note what it raises in %%capture, which ends well all the same."""
        result = super().run_cell(*arguments, **options)
        if _is_magic(sys._getframe(1), "capture"):
            self.captured_error = result.error_before_exec or result.error_in_exec
        return result

    def showtraceback(self, *arguments: Any, **options: Any) -> None:
        """Keep the traceback of the exception that is being handled, as IPython formats it where it can."""
        error = sys.exc_info()[1]
        # Before IPython 9.4, and so on Python 3.10, %time and %%time show what their code raises, an interrupt too, and
        # the cell ends well. Source: https://github.com/ipython/ipython/issues/12971
        if error is not None and _is_magic(sys._getframe(1), "time"):
            raise error
        # Others are shown too, as %timeit's and %prun's, and the cell continues.
        has_cell_raised = bool(options.get("running_compiled_code"))
        is_plain = has_cell_raised and self.when_raised is not None and self.when_raised(error)
        # IPython takes at least a millisecond for each frame of a recursion.
        if error is not None and (is_plain or is_recursion(error)):
            self._keep_plain(error)
            return
        try:
            super().showtraceback(*arguments, **options)
        except Exception:
            if error is None:
                raise
            self._keep_plain(error)

    def _keep_plain(self, error: BaseException) -> None:
        self._showtraceback(type(error), error, plain_traceback(error))

    def _showtraceback(self, _etype: Any, _evalue: Any, stb: list[str]) -> None:
        """Keep the lines for the rank's report, where IPython would print or publish them."""
        self.traceback_lines = [bounded(line) for line in stb]
        # ipyparallel's own requests (push, pull) read it here.
        self._last_traceback = self.traceback_lines

    @contextmanager
    def _tee(self, channel: str) -> Iterator[None]:  # noqa: ARG002 (IPython's signature)
        """Keep no copy of what a cell prints: IPython 9 has one in its history, where a flood would fill the memory."""
        yield

    def _format_exception_for_storage(self, exception: BaseException, *_: Any, **__: Any) -> dict[str, Any]:
        """Return what is formatted already: IPython 9 formats it once more, which takes seconds for TensorFlow's."""
        return {"ename": type(exception).__name__, "evalue": text_of(exception), "traceback": self.traceback_lines}


def _is_magic(frame: FrameType, name: str) -> bool:
    """Return whether a magic of IPython's that runs code runs in a frame."""
    return frame.f_code.co_name == name and frame.f_globals.get("__name__") == ExecutionMagics.__module__


# rich, tqdm and others recognise a notebook's process by this name.
RankShell.__name__ = ZMQInteractiveShell.__name__


class RankKernel(IPythonParallelKernel):
    """ipyparallel's kernel with the rank's shell."""

    shell_class = Type(RankShell)

    def __init__(self, **options: Any) -> None:
        # ipykernel imports pydevd here, also where no one debugs.
        with settings_of_pydevd():
            super().__init__(**options)

    async def dispatch_queue(self) -> None:
        """Take requests one after the other, for ipykernel 6, where a cell that cancels all tasks cancels this one."""
        while True:
            try:
                await super().dispatch_queue()
            except asyncio.CancelledError:
                continue

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        """Publish "busy" and "idle" for ipyparallel's own requests only.

        For our requests they are not read, and each would go through the controller's relay and its hub: at 16 ranks
        that is most of what a short cell costs.
        """
        cause = parent or self.get_parent(channel)
        if cause.get("header", {}).get("msg_type") != MESSAGE_TYPE:
            super()._publish_status(status, channel, parent)


# Messages about replaced attributes name the class that ipyparallel documents.
RankKernel.__name__ = IPythonParallelKernel.__name__
