"""Completes a cell that runs on ranks (Tab), in any front end: rank 0's names in place of this kernel's.

JupyterLab's panel asks the hub as well, which also answers while this kernel is busy.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from jupyter_ddl.errors import DdlError
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics import whole_notebook

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_IDENTIFIER = "jupyter_ddl.rank_0"
# Before all of IPython's own, which are then not asked.
_PRIORITY = 1_000
_MAGIC = "%%distributed"


def install(shell: InteractiveShell) -> None:
    """Have a shell complete the cells that run on ranks; once, however often it is called."""
    completer: Any = shell.Completer
    others = [matcher for matcher in completer.custom_matchers if _identifier(matcher) != _IDENTIFIER]
    completer.custom_matchers = [*others, names_of_rank_0]


@context_matcher(identifier=_IDENTIFIER, priority=_PRIORITY)  # type: ignore[untyped-decorator]
def names_of_rank_0(context: CompletionContext) -> Any:
    """Return what rank 0 completes below the magic's line; nothing elsewhere, and where it does not answer in a second.

    Source: IPython 8.6's second API of matchers (IPython.core.completer, "Matchers"). A result with `suppress` keeps
    the other matchers from adding theirs, if it has any completion.
    """
    above = context.full_text.split("\n")[: context.cursor_line]
    below = code_of_ranks(context.full_text, sum(len(line) + 1 for line in above) + context.cursor_position)
    if below is None:
        return {"completions": []}
    code, cursor = below
    try:
        found = current.current().look_up("complete", code, cursor)
    except DdlError:
        # No ranks, or none that live: the cell reports that when it is run.
        return {"completions": []}
    completions = [SimpleCompletion(text=match, type="rank") for match in found["matches"]]
    return {"completions": completions, "matched_fragment": code[found["start"] : found["end"]], "suppress": True}


def code_of_ranks(text: str, cursor: int) -> tuple[str, int] | None:
    """Return the code of a cell that runs on ranks, and where in it the cursor is; None in other cells and lines."""
    return (text, cursor) if whole_notebook.goes_to_ranks(text) else _below_magic(text, cursor)


def _below_magic(text: str, cursor: int) -> tuple[str, int] | None:
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    start = sum(len(line) + 1 for line in lines[: first + 1])
    if lines[first].split(maxsplit=1)[:1] != [_MAGIC] or cursor < start:
        return None
    return text[start:], cursor - start


def _identifier(matcher: Any) -> str | None:
    return getattr(matcher, "matcher_identifier", None)
