"""What happens when a module is imported, seen in Python processes of their own."""

from __future__ import annotations

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
