"""Runs `%%distributed`: parses the line, calls the session, shows the run.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand

from jupyter_ddl.commands.arguments import add_cell_arguments, cell_options
from jupyter_ddl.commands.examples import add_examples
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics import whole_notebook
from jupyter_ddl.kernel.magics.ddl_examples import OF_CELLS
from jupyter_ddl.kernel.magics.magic_line import MagicParser, parsed, ranks_of, show_rebuild
from jupyter_ddl.kernel.magics.tuned_cell import tune_cell
from jupyter_ddl.kernel.run_origin import executed_code
from jupyter_ddl.views.selection import current_publisher, for_environment, with_figures

if TYPE_CHECKING:
    from jupyter_ddl.kernel.run_follower import Follower
    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import Run
    from jupyter_ddl.views.view import View


@cache
def distributed_parser() -> MagicParser:
    """Return the parser of the magic's line."""
    parser = MagicParser(
        prog="%%distributed",
        description="Run the cell on the ranks.",
        epilog="On each rank the names rank, local_rank and world_size are set.",
    )
    parser.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")
    parser.add_argument("--async", dest="background", action="store_true", help="do not wait for the cell's end")
    parser.add_argument(
        "--tune",
        nargs="?",
        const="",
        metavar="KINDS",
        help="run nothing on these ranks; try on others what makes the exchange faster: all, or e.g. fusion,cycle",
    )
    add_cell_arguments(parser)
    add_examples(parser, OF_CELLS)
    return parser


@magics_class
class DistributedMagics(Magics):
    """The magic of the cells that run on ranks."""

    @no_var_expand
    @cell_magic
    def distributed(self, line: str, cell: str) -> Follower | None:
        """Run the cell on the ranks, with the options of %%distributed -h."""
        arguments = parsed(distributed_parser(), line)
        if arguments is None:
            return None
        options = cell_options(arguments)
        session = current.current()
        if options.auto is not None and arguments.explain:
            from jupyter_ddl.explain import explain, render

            print(render(explain(cell, world_size=session.world_size, **asdict(options.auto))))
            return None
        if arguments.tune is not None:
            tune_cell(cell, session.world_size, arguments.tune, auto=options.auto is not None)
            return None
        show_rebuild(session)
        options = replace(options, above=_lines_above(self.shell), count=_prompt(self.shell))
        ranks = ranks_of(arguments.ranks, session)
        with interrupts_noted(ends_the_cell=_ends_the_cell(self.shell)):
            # An interrupt between the two would leave ranks with a run that is not followed.
            follower = session.submit(
                cell,
                ranks,
                options,
                view=partial(_view, session, only_first_rank=options.auto is not None),
                setup=arguments.setup,
            )
            if arguments.background:
                follower.follow_in_background()
                return follower
            follower.wait()
        return None


def _view(session: Session, run: Run, *, only_first_rank: bool) -> View:
    publisher = current_publisher()
    output = for_environment(publisher, run.ranks, f"%ddl logs {run.id}", only_first_rank=only_first_rank)
    return with_figures(publisher, output, session.ranks, session.single_rank_samples_per_s)


def _prompt(shell: Any) -> int:
    """Return the number of the prompt of the cell that runs."""
    count: int = shell.execution_count
    return count


def _lines_above(shell: Any) -> int:
    """Return how many lines of the notebook's cell stand above the code: the magic's, if it has it, and empty ones."""
    code = executed_code(shell)
    below = code.lstrip()
    if not _is_run_whole(shell, below):
        return 1
    empty = code[: len(code) - len(below)].count("\n")
    return empty + 1 if below.startswith("%%distributed") else empty


def _ends_the_cell(shell: Any) -> bool:
    """Return whether nothing of the notebook's cell follows the magic, and ipykernel executes it."""
    is_ipykernel = hasattr(getattr(shell, "kernel", None), "post_handler_hook")
    return is_ipykernel and _is_run_whole(shell, executed_code(shell).lstrip())


def _is_run_whole(shell: Any, code: str) -> bool:
    """Return whether the magic runs the notebook's whole cell: another magic, or code, may have run this one."""
    # A terminal has none.
    if code.startswith("%%") or not code:
        return code.startswith("%%distributed")
    return whole_notebook.installed(shell).applies_to(code)
