"""What happens when a module is imported, seen in Python processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def told(program: str) -> list[str]:
    """Run a program after the hooks' import; return its lines."""
    text = f"import sys\nfrom jupyter_ddl.host import import_hooks as hooks\n{program}"
    child = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    return child.stdout.splitlines()


def test_a_listener_is_called_when_the_module_has_run() -> None:
    program = """
hooks.when_imported("wave", lambda module: print(module.__name__, hasattr(module, "open")))
print("wave" in sys.modules)
import wave
import wave
print(type(wave.__spec__.loader).__name__)
"""
    assert told(program) == ["False", "wave True", "SourceFileLoader"]


def test_a_module_that_has_been_imported_is_told_of_at_once() -> None:
    assert told("import wave\nhooks.when_imported('wave', lambda module: print(module.__name__))") == ["wave"]


def test_a_listener_that_raises_fails_the_import_and_is_called_at_the_next() -> None:
    program = """
calls = []
def listener(module):
    calls.append(module)
    if len(calls) == 1:
        raise OSError("not yet")
hooks.when_imported("wave", listener)
try:
    import wave
except OSError as error:
    print(error)
import wave
print(len(calls), calls[-1] is wave)
"""
    assert told(program) == ["not yet", "2 True"]


def test_a_listener_may_add_a_listener() -> None:
    program = """
def first(module):
    hooks.when_imported("wave", lambda module: print("second"))
    print("first")
hooks.when_imported("wave", first)
import wave
"""
    assert told(program) == ["first", "second"]


def test_a_replaced_module_is_the_other_one_however_it_is_imported() -> None:
    program = """
import email.charset
hooks.replace("email.charset", "wave")
hooks.replace("email.missing", "wave")
from email import charset, missing
import email.missing
import wave
print(charset is wave, missing is wave, email.missing is wave, sys.modules["email.missing"] is wave)
"""
    assert told(program) == ["True True True True"]


def test_a_module_is_replaced_only_when_it_is_to_be() -> None:
    program = """
wanted = False
hooks.replace("email.charset", "wave", when=lambda: wanted)
import email.charset
print(email.charset.__name__)
"""
    assert told(program) == ["email.charset"]


def test_whoever_watches_is_called_for_each_module_after_its_listeners() -> None:
    program = """
def watches(name):
    return name.startswith("wav") or name == "email.charset"
def watched(module):
    print("watched", module.__name__)
for _ in range(2):
    hooks.whenever_imported(watches, watched)
hooks.when_imported("wave", lambda module: print("listened"))
import wave, email.charset
from importlib import reload
reload(wave)
"""
    assert told(program)[:3] == ["listened", "watched wave", "watched email.charset"]


def test_a_missing_module_is_served_and_one_that_exists_is_not() -> None:
    program = """
from importlib.machinery import ModuleSpec
class Made:
    def create_module(self, spec): return None
    def exec_module(self, module): module.made = True
def find(name):
    if name == "email.refused":
        raise ImportError("write something else", name=name)
    return ModuleSpec(name, Made())
hooks.serve_missing(lambda name: name.startswith("email."), find)
import email.charset, email.gone
print(hasattr(email.charset, "made"), email.gone.made)
try:
    import email.refused
except ImportError as error:
    print(error)
print(sum(type(finder).__module__ == hooks.__name__ for finder in sys.meta_path))
"""
    assert told(program) == ["False True", "write something else", "1"]


def test_the_loader_leaves_no_trace_while_the_module_runs() -> None:
    program = """
hooks.when_imported("wave", lambda module: print(type(module.__loader__).__name__, module is sys.modules["wave"]))
import wave
"""
    assert told(program) == ["SourceFileLoader True"]


def test_a_replaced_module_is_put_back() -> None:
    program = """
import email.charset
stock = email.charset
hooks.replace("email.charset", "wave")
hooks.replace("email.header", "wave", when=lambda: False)
from email import charset
print(charset.__name__, hooks.replaced())
hooks.put_back()
import email.charset
print(email.charset.__name__, sys.modules["email.charset"].__name__, hooks.replaced())
"""
    assert told(program) == ["wave {'email.charset': 'wave'}", "email.charset email.charset {}"]


def test_a_folder_that_has_a_modules_name_does_not_stand_in_for_one(tmp_path: Path) -> None:
    (tmp_path / "served_here").mkdir()
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from importlib.machinery import ModuleSpec
from importlib.abc import Loader
class Empty(Loader):
    def create_module(self, spec): pass
    def exec_module(self, module): module.here = True
hooks.serve_missing(lambda name: name == "served_here", lambda name: ModuleSpec(name, Empty()))
import served_here
print(served_here.here)
"""
    assert told(program) == ["True"]


# A package that fails half-way, as torch does where a library cannot be loaded.
PLACE = re.compile(r"in /\S+/halves/__init__\.py, line 4")
HALVES = r"""
import pathlib, tempfile, threading
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "halves").mkdir()
(folder / "halves" / "first.py").write_text("")
text = "import time\nfrom halves import first\ntime.sleep(0.5)\nraise OSError('no such library')\n"
(folder / "halves" / "__init__.py").write_text(text)
sys.path.insert(0, str(folder))
hooks.import_once("halves", "lacks")
def tried(statement):
    try:
        exec(statement, {})
        return "imported"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


def test_a_package_whose_import_ended_half_way_is_refused_in_any_words() -> None:
    program = """
print(tried("import halves"))
print(hooks.cut_off("halves"), [name for name in sys.modules if name.startswith("halves")])
for statement in ("import halves", "from halves import first", "import halves.first", "__import__('halves.first')"):
    print(tried(statement))
print(tried("import lacks"), hooks.cut_off("lacks"))
"""
    refused = (
        "ImportError: halves is imported once in a process. Received: an import after one that ended half-way "
        "(OSError: no such library, in FILE). Start the ranks again: %ddl restart"
    )
    assert [PLACE.sub("in FILE", line) for line in told(HALVES + program)] == [
        "OSError: no such library",
        "OSError: no such library, in FILE []",
        *[refused] * 4,
        "ModuleNotFoundError: No module named 'lacks' None",
    ]


def test_an_interrupt_half_way_is_an_end_too() -> None:
    program = """
import _thread
threading.Timer(0.2, _thread.interrupt_main).start()
try:
    import halves
except KeyboardInterrupt:
    print(hooks.cut_off("halves"))
"""
    (line,) = told(HALVES + program)
    assert re.fullmatch(r"KeyboardInterrupt, in /\S+/halves/__init__\.py, line 3", line)


def test_threads_that_import_while_the_background_import_fails_get_the_error() -> None:
    program = """
from types import SimpleNamespace
from jupyter_ddl.engine import preload
preload._IMPORTED["halves"] = ("halves",)
warmup = preload.Warmup(SimpleNamespace(rank=0), SimpleNamespace(watch=None), "halves", 1, 0.0)
sys.stderr = sys.stdout
said = []
warmup.start()
threads = [threading.Thread(target=lambda: said.append(tried("import halves; halves.first"))) for _ in range(3)]
for one in threads:
    one.start()
said.append(tried("import halves"))
for one in threads:
    one.join()
print(warmup.report.problem, len(said), {one.partition(".")[0] for one in said})
"""
    *log, last = told(HALVES + program)
    assert "OSError: no such library" in log
    assert last == "OSError: no such library 4 {'ImportError: halves is imported once in a process'}"


def test_ranks_do_not_stand_by_where_the_early_import_failed() -> None:
    program = """
from types import SimpleNamespace
from jupyter_ddl.engine import preload
preload._IMPORTED["halves"] = ("halves",)
warmup = preload.Warmup(SimpleNamespace(rank=3), SimpleNamespace(watch=None), "halves", 1, 0.0)
sys.stderr = sys.stdout
try:
    warmup.stand_by(lambda: print("waits"))
except SystemExit as error:
    print(error)
"""
    *log, last = told(HALVES + program)
    assert "OSError: no such library" in log
    wanted = "Rank 3 cannot stand by: the import of halves failed (OSError: no such library, in FILE)."
    assert PLACE.sub("in FILE", last) == wanted
