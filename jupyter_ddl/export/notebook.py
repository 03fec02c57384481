"""Reads what a notebook says of its ranks and its parameters, and makes the copy of it that a job runs."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.notebook_mode import runs_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = re.compile(r"^\s*%ddl[ \t]+(\w+)(.*)$", re.MULTILINE)
_ON_RANKS = re.compile(r"\s*%%distributed\b")
_STARTS = ("start", "submit")
_START = "%load_ext jupyter_ddl\n%ddl start"
_WHOLE = "%ddl auto on"


def read_notebook(path: Path) -> Any:
    """Read a notebook that may be exported.

    Raises:
        InvalidInput: there is none, or it uses no ranks, or those of a cluster that another notebook has started.
    """
    import nbformat

    try:
        # What is JSON and no notebook (a list, cells that are text) ends nbformat in one of the last three.
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, nbformat.ValidationError, AttributeError, TypeError, LookupError) as error:
        reason = getattr(error, "strerror", None) or "no notebook"
        raise InvalidInput(
            "What is exported must be a notebook.", f"{path} ({reason})", "Name a file.ipynb."
        ) from error
    if not _uses_ranks(notebook):
        raise InvalidInput(
            "What is exported must have cells with %%distributed, or run on ranks as a whole.",
            f"{path}, which has none",
            "Submit a notebook without ranks as any other program: papermill runs it.",
        )
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and any(word == "attach" for word, _ in magic_lines(cell.source)):
            raise InvalidInput(
                "An exported notebook must start its ranks itself.",
                f"%ddl attach in cell {number}",
                "Write %ddl start, and the cells that define what this one uses.",
            )
    return notebook


def parameter_names(notebook: Any) -> set[str]:
    """Return the names that the notebook's cell of parameters sets, as papermill knows it: by its tag."""
    for cell in code_cells(notebook):
        if "parameters" in cell.metadata.get("tags", []):
            return {name for node in _statements(cell.source) for name in _targets(node)}
    return set()


def ranks_of(notebook: Any) -> int | None:
    """Return how many ranks its starts ask for, at most; None where they leave that open, or a variable says it."""
    counts = [count for cell in code_cells(notebook) for count in _counts(cell.source)]
    return max(counts, default=None)


def job_copy(notebook: Any) -> Any:
    """Return the notebook without outputs; where nothing in it starts ranks, a cell of its own does.

    A notebook that the panel runs on ranks as a whole says so in its metadata, which no kernel sees: a line does here.
    """
    import nbformat

    copy = nbformat.from_dict(notebook)  # type: ignore[no-untyped-call]
    # The job's kernel is of the environment that jupyter_ddl is in, whatever kernels its user has beside.
    copy.metadata.pop("widgets", None)
    copy.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in code_cells(copy):
        cell.outputs, cell.execution_count = [], None
    is_whole = runs_whole(copy.metadata)
    start = next((at for at, cell in enumerate(copy.cells) if cell.cell_type == "code" and _starts(cell.source)), None)
    if start is None:
        start = 0 if is_whole else next((at for at, cell in enumerate(copy.cells) if _is_on_ranks(cell)), 0)
        copy.cells.insert(start, nbformat.v4.new_code_cell(_START))  # type: ignore[no-untyped-call]
    if is_whole:
        copy.cells.insert(start + 1, nbformat.v4.new_code_cell(_WHOLE))  # type: ignore[no-untyped-call]
    return copy


def _uses_ranks(notebook: Any) -> bool:
    return runs_whole(notebook.metadata) or any(
        _ON_RANKS.match(cell.source) or any(word == "auto" for word, _ in magic_lines(cell.source))
        for cell in code_cells(notebook)
    )


def code_cells(notebook: Any) -> Iterator[Any]:
    """Return the cells that have code."""
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def magic_lines(source: str) -> list[tuple[str, str]]:
    """Return the lines of a cell that begin with %ddl: each one's word, and what follows it."""
    return _MAGIC.findall(source)


def _is_on_ranks(cell: Any) -> bool:
    return cell.cell_type == "code" and _ON_RANKS.match(cell.source) is not None


def _starts(source: str) -> bool:
    return any(word in _STARTS for word, _ in magic_lines(source)) or any(calls(source, *_STARTS))


def _counts(source: str) -> Iterator[int]:
    """Yield the numbers of ranks that a cell's starts say."""
    for word, rest in magic_lines(source):
        options = _options(rest)
        if word == "start" and "-n" in options:
            yield options["-n"]
    for call in calls(source, "start"):
        given = dict(zip(("n",), call.args, strict=False)) | {word.arg: word.value for word in call.keywords}
        match given.get("n"):
            case ast.Constant(value=int(count)):
                yield count


def _options(rest: str) -> dict[str, int]:
    """Return the options of a line whose values are numbers."""
    try:
        words = shlex.split(rest.replace("=", " "))
    except ValueError:
        return {}
    pairs = itertools.pairwise(words)
    return {word: int(value) for word, value in pairs if word.startswith("-") and value.isascii() and value.isdigit()}


def calls(source: str, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of functions of jupyter_ddl, by their names, in a cell that runs here."""
    for statement in _statements(source):
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="jupyter_ddl"), attr=name)) if name in names:
                    yield node


def _statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell that runs here, without magics; none of one that runs on ranks, or is broken."""
    if _ON_RANKS.match(source):
        return []
    lines = ("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
    try:
        return ast.parse("\n".join(lines)).body
    except SyntaxError:
        return []


def _targets(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
