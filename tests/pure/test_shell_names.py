"""The names of `builtins` stay the same while a rank gets its shell and runs cells: other threads walk over them."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

PROGRAM = """
import builtins, json, sys, threading
{first}
before, seen = list(vars(builtins)), []
from IPython.core.interactiveshell import InteractiveShell
early = builtins.get_ipython() if hasattr(builtins, "get_ipython") else None
shell = InteractiveShell.instance()
shell.user_ns["look"] = lambda: seen.append(list(vars(builtins)) == before)
shell.run_cell("look()")
shell.run_cell("class_of_shell = type(get_ipython()).__name__")
between = getattr(builtins, "get_ipython", lambda: None)()
print(json.dumps([early, seen, list(vars(builtins)) == before, shell.user_ns["class_of_shell"], between is shell]))
"""


def told(first: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", dedent(PROGRAM.format(first=first))], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def test_neither_a_shell_nor_a_cell_changes_the_names_of_builtins() -> None:
    first = "from jupyter_ddl.engine import shell_names; shell_names.install()"
    assert told(first) == '[null, [true], true, "InteractiveShell", true]'


def test_without_it_both_do() -> None:
    assert told("") == '[null, [false], false, "InteractiveShell", false]'


def test_before_there_is_a_shell_display_shows() -> None:
    code = "from jupyter_ddl.engine import shell_names; shell_names.install(); display('text')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "text\n"
