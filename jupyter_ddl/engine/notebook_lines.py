"""Numbers cells on a rank as the notebook does: a traceback names the line and the prompt that the user sees.

The magic's line is above the code, and the kernel counts other cells than the ranks do.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from IPython.core.interactiveshell import InteractiveShell

    _Transform: TypeAlias = Callable[[list[str]], list[str]]

_MAGIC = "%%"


class NotebookLines:
    """The numbering of one shell's cells.

    Args:
        shell: of this rank. Its IPython drops empty lines above a cell, which are kept from here on.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        transforms: Any = shell.input_transformer_manager.cleanup_transforms
        for at, transform in enumerate(transforms):
            # Source: ipython 9.18, IPython/core/inputtransformer2.py, TransformerManager
            drops_them = getattr(transform, "__name__", "") == "leading_empty_lines"
            transforms[at] = _where_a_magic_follows(transform) if drops_them else _below_empty_lines(transform)
        compiler: Any = shell.compile
        self._names: dict[str, Any] = compiler._filename_map
        self._cache: Callable[..., str] = compiler.cache
        compiler.cache = self._named
        self._count: int | None = None

    def placed(self, code: str, above: int, count: int | None) -> str:
        """Return a cell's code with its lines where the notebook has them.

        Args:
            code: what is run.
            above: lines of the notebook's cell above it.
            count: the number of the notebook's prompt; None where there is none.
        """
        self._count = count
        # A magic must be the first line.
        return code if code.lstrip().startswith(_MAGIC) else "\n" * above + code

    def _named(self, *arguments: Any, **options: Any) -> str:
        """Replace the compiler's `cache`, by whose numbers tracebacks name cells.

        Source: ipython 9.18, IPython/core/compilerop.py, CachingCompiler.cache
        """
        name = self._cache(*arguments, **options)
        if self._count is not None:
            self._names[name] = self._count
        return name


def _where_a_magic_follows(leading_empty_lines: _Transform) -> _Transform:
    def transform(lines: list[str]) -> list[str]:
        first = next((line for line in lines if line.strip()), "")
        return leading_empty_lines(lines) if first.lstrip().startswith(_MAGIC) else lines

    return transform


def _below_empty_lines(cleanup: _Transform) -> _Transform:
    """Return a transform that is given what follows the empty lines: it looks at the first line."""

    def transform(lines: list[str]) -> list[str]:
        first = next((at for at, line in enumerate(lines) if line.strip()), 0)
        return lines[:first] + cleanup(lines[first:])

    return transform
