"""Programs in files: .py, and the code cells of .ipynb, rewritten as one program."""

from __future__ import annotations

import io
import json
import re
import tokenize
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from typing import TYPE_CHECKING, Any

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.modernise.magic_lines import MagicLines
from jupyter_ddl.modernise.rewrite import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_END_OF_CELL = "__jupyter_ddl_end_of_cell__"


@dataclass(frozen=True)
class Part:
    """A file of Python, or one cell of a notebook.

    Attributes:
        name: the file's, for a cell with its number.
        old: the text as it is.
        new: the text in today's spelling.
        notes: line of the new text, from 1, and what is written today, for what stays old; line 0 for the whole part.
    """

    name: str
    old: str
    new: str
    notes: list[tuple[int, str]]

    def diff(self) -> str:
        """Return what changes, as a unified diff; empty for nothing."""
        lines = unified_diff(
            self.old.splitlines(keepends=True), self.new.splitlines(keepends=True), self.name, self.name
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def old_line(self, line: int) -> int:
        """Return the line of the old text that a line of the new text stands for."""
        matcher = SequenceMatcher(None, self.old.splitlines(), self.new.splitlines(), autojunk=False)
        for _, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
            if new_begin < line <= new_end:
                return min(old_begin + line - new_begin, max(old_end, 1))
        return line


class Program:
    """A file that holds a program.

    Args:
        path: a .py or .ipynb file.

    Raises:
        InvalidInput: it is not Python, or not a notebook of today's format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = path.read_bytes()
        if path.suffix == ".ipynb":
            self._notebook = _read_notebook(path, self._content)
            self.parts = list(_cells(self._notebook, str(path)))
        else:
            self._encoding, _ = tokenize.detect_encoding(io.BytesIO(self._content).readline)
            text = self._content.decode(self._encoding)
            rewritten = rewrite(text, str(path))
            notes = [(leftover.line, leftover.today) for leftover in rewritten.leftovers]
            self.parts = [Part(str(path), text, rewritten.code, notes)]

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to write."""
        return any(part.old != part.new for part in self.parts)

    def write(self) -> None:
        """Write the program in today's spelling over the file."""
        if self._path.suffix != ".ipynb":
            self._path.write_bytes(self.parts[0].new.encode(self._encoding))
            return
        for cell, part in zip(_code_cells(self._notebook), self.parts, strict=True):
            is_list = isinstance(cell["source"], list)
            cell["source"] = part.new.splitlines(keepends=True) if is_list else part.new
        text = json.dumps(self._notebook, indent=_indent(self._content.decode()), ensure_ascii=False)
        end = "\n" if self._content.endswith(b"\n") else ""
        self._path.write_text(text + end, encoding="utf-8")


def _read_notebook(path: Path, content: bytes) -> dict[str, Any]:
    try:
        notebook: dict[str, Any] = json.loads(content)
        version = notebook["nbformat"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput("An .ipynb file must be a notebook.", path, "Correct its name, or its JSON.") from error
    if version != 4:
        remedy = f"Run: jupyter nbconvert --to notebook --inplace {path}"
        raise InvalidInput("A notebook must be of format 4.", f"{path}, format {version}", remedy)
    return notebook


def _code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _cells(notebook: dict[str, Any], name: str) -> Iterator[Part]:
    """Yield each code cell; all that are Python are rewritten together, since one imports what the next uses."""
    magics = MagicLines()
    sources = ["".join(cell["source"]) for cell in _code_cells(notebook)]
    hidden = [magics.hide(source) for source in sources]
    problems = [None if code is None else _problem(code) for code in hidden]
    is_python = [code is not None and problem is None for code, problem in zip(hidden, problems, strict=True)]
    joined = "".join(f"{code}\n{_END_OF_CELL}\n" for code, is_known in zip(hidden, is_python, strict=True) if is_known)
    rewritten = rewrite(joined, name)
    texts = iter(re.split(rf"\n{_END_OF_CELL}\n", rewritten.code))
    begin = 0
    for number, (source, problem, is_known) in enumerate(zip(sources, problems, is_python, strict=True), start=1):
        title = f"{name}, code cell {number}"
        if not is_known:
            yield Part(title, source, source, [(0, problem)] if problem else [])
            continue
        text = next(texts)
        end = begin + text.count("\n") + 2
        notes = [(found.line - begin, found.today) for found in rewritten.leftovers if begin < found.line <= end]
        yield Part(title, source, magics.show(text), notes)
        begin = end


def _problem(code: str) -> str | None:
    """Return why a cell cannot be read as Python, or None."""
    try:
        cst.parse_module(code)
    except cst.ParserSyntaxError as error:
        return f"This cell is left as it is: its line {error.raw_line} is no valid Python 3."
    return None


def _indent(text: str) -> int | None:
    found = re.search(r'\n( +)"', text)
    return len(found[1]) if found else None
