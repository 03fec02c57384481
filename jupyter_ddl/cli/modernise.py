"""`jupyter ddl modernise FILE...`: the same program in today's spelling, as a diff or written to its file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    import argparse

    from jupyter_ddl.modernise.program_files import Part

NAME = "modernise"
HELP = "Show, or write, a program's old Keras and Horovod spellings as they are written today."
EXAMPLES = (
    ("modernise train.py", "show what would change"),
    ("modernise *.ipynb --write", "change the files"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a .py or .ipynb file")
    parser.add_argument("--write", action="store_true", help="write the files, in place of showing a diff")


def main(arguments: argparse.Namespace) -> int:
    """Rewrite; return the exit status."""
    for path in arguments.files:
        _check(path)
    if importlib.util.find_spec("libcst") is None:
        raise InvalidInput(
            "Rewriting programs takes libcst.", "an environment without it", "Run: pip install 'jupyter_ddl[modernise]'"
        )
    from jupyter_ddl.modernise.program_files import Program

    for path in arguments.files:
        program = Program(path)
        if not program.has_changed:
            print(f"{path}: nothing to rewrite")
        elif arguments.write:
            program.write()
            print(f"{path}: rewritten")
        else:
            print("".join(part.diff() for part in program.parts), end="")
        notes = [note for part in program.parts for note in _notes(part, is_written=arguments.write)]
        if notes:
            print("\n".join(["Not rewritten:", *notes]))
    return 0


def _check(path: Path) -> None:
    if not path.is_file():
        raise InvalidInput("A file to rewrite must exist.", path, f"Correct its name; this folder is {Path.cwd()}.")
    if path.suffix not in (".py", ".ipynb"):
        raise InvalidInput("A file to rewrite is a Python program or a notebook.", path, "Pass a .py or .ipynb file.")


def _notes(part: Part, *, is_written: bool) -> list[str]:
    """Return what stays old, by the lines of the file as it is now."""
    notes = []
    for line, today in part.notes:
        place = f", line {line if is_written else part.old_line(line)}" if line else ""
        notes.append(f"{part.name}{place}: {today}")
    return notes
