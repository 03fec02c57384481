"""The site's pages that are made from the code name all that the code has, and the index lists each page once."""

from __future__ import annotations

import argparse
import doctest
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from examples import public_names

from jupyter_ddl import errors
from jupyter_ddl.cli import SUBCOMMANDS, command_parser
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser
from jupyter_ddl.kernel.magics.distributed import distributed_parser
from jupyter_ddl.protocol import faults
from jupyter_ddl.views import fault_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))
MODULES = (
    "api",
    "benchmarks",
    "contents",
    "docstrings",
    "faults",
    "parsers",
    "project",
    "sources",
    "variables",
    "writing",
)
api, benchmarks, contents, project, sources, variables, writing = (
    importlib.import_module(f"site_pages.{name}")
    for name in ("api", "benchmarks", "contents", "project", "sources", "variables", "writing")
)
PAGES: dict[str, str] = writing.pages()
USERS = [
    one.name
    for one in variables.variables((ROOT / "jupyter_ddl" / "paths.py").read_text())
    if one.group == variables.USERS
]


def below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of a command line that have no subcommands, as argparse itself holds them."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for subparser in group.choices.values():
            yield from below(subparser)


LINES = [
    (page, parser)
    for page, root in (
        ("magics.md", distributed_parser()),
        ("magics.md", ddl_parser()),
        ("commands.md", command_parser()),
    )
    for parser in below(root)
]


def section(page: str, title: str) -> str:
    """Return a section of a page, from its heading to the next one."""
    _, _, rest = PAGES[page].partition(f"## `{title}`\n")
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize(("page", "parser"), LINES, ids=[parser.prog for _, parser in LINES])
def test_the_reference_names_every_argument(page: str, parser: argparse.ArgumentParser) -> None:
    text = section(page, parser.prog)
    assert text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for action in parser._actions:
        if action.dest == "help":
            continue
        place = action.metavar or "|".join(action.choices or ()) or action.dest
        names = action.option_strings or [str(place).replace("|", "\\|")]
        row = next((row for row in rows if f"`{names[0]}`" in row.split(" | ")[0]), None)
        assert row is not None, names
        assert all(f"`{name}`" in row for name in names)
        if action.help and action.help is not argparse.SUPPRESS:
            assert re.sub(r"\W", "", action.help.split("%")[0]) in re.sub(r"\W", "", row)


def test_the_lines_are_those_that_people_type() -> None:
    programs = Counter(parser.prog for _, parser in LINES)
    assert set(programs.values()) == {1}
    assert {"%%distributed", "%ddl start", "%ddl logs", "jupyter ddl run", "jupyter ddl bench scaling"} <= set(programs)
    assert all(any(line.startswith(f"jupyter ddl {one.NAME}") for line in programs) for one in SUBCOMMANDS)


def test_the_usage_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert writing.pages()["commands.md"] == PAGES["commands.md"]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_has_whole_tables_and_fences(page: str) -> None:
    text = PAGES[page]
    assert text.startswith("# ")
    fences = re.findall(r"^(`{3,})", text, re.MULTILINE)
    assert all(count % 2 == 0 for count in Counter(fences).values())
    assert "==SUPPRESS==" not in text


def test_every_variable_of_the_code_is_in_the_table() -> None:
    used = set()
    for module in (ROOT / "jupyter_ddl").rglob("*.py"):
        used |= set(re.findall(r'"(JUPYTER_DDL_[A-Z_]+)"', module.read_text()))
    # An example in a docstring, of a name that is not read.
    used.discard("JUPYTER_DDL_TOKEN")
    listed = re.findall(r"^\| `(JUPYTER_DDL_[A-Z_]+)` \| \S", PAGES["variables.md"], re.MULTILINE)
    assert sorted(listed) == sorted(used)


def test_a_variable_without_a_comment_is_refused() -> None:
    line = 'NEW_VARIABLE = "JUPYTER_DDL_NEW"'
    for text in (line, f"# {variables.USERS}\n{line}", f"{line}  # sets it"):
        with pytest.raises(ValueError, match=r"has a comment, and stands in a group. Received: NEW_VARIABLE"):
            variables.variables(text)


def test_the_overview_by_task_names_each_command_and_variable_of_users() -> None:
    text = (DOCS / "commands.md").read_text()
    words = set(re.findall(r"[\w%-]+", text))
    for _, parser in LINES:
        program, _, name = parser.prog.replace("jupyter ddl", "jupyter-ddl").partition(" ")
        assert name.split(" ")[0] in words or not name, f"{program} {name}"
    assert [name for name in USERS if f"`{name}`" not in text] == []


def test_the_overview_by_task_names_no_option_that_no_parser_has() -> None:
    known = {name for _, parser in LINES for name in parser._option_string_actions}
    # What stands behind a script's name is its own.
    lines = (line.partition(".py ")[0] for line in re.findall(r"`([^`]+)`", (DOCS / "commands.md").read_text()))
    named = {name for line in lines for name in re.findall(r"(?<![\w-])--[a-z][\w-]*", line)}
    assert named - known == set()
    assert len(named) > 30


def test_the_api_has_every_public_name_with_its_example() -> None:
    for one in public_names():
        module, _, name = one.name.replace("jupyter_ddl.training.", "jupyter_ddl.keras.").rpartition(".")
        text = section("python.md", module)
        assert re.search(rf"^`{{5}}{{py:(function|class|exception)}} {name}\b", text, re.MULTILINE), one.name
        assert one.example.splitlines()[0] in text, one.name


def test_a_listed_name_that_is_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "face.py").write_text('__all__ = ["here", "nowhere"]\ndef here(): ...\n')
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    with pytest.raises(LookupError, match=r"jupyter_ddl.face must define or import .* Received: nowhere\."):
        sources.public("jupyter_ddl.face")


def test_a_signature_is_that_of_the_code() -> None:
    text = PAGES["python.md"]
    assert "{py:function} attach(name: str='default', progress: Callable[[str], None]=" in text
    assert "{py:method} pull(name: str, ranks: Iterable[int] | None=None) -> dict[int, Any]" in text
    assert "{py:property} world_size\n:type: int\n" in text
    assert "{py:class} DataSet(" in text


def test_the_errors_are_all_there() -> None:
    raised = {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)
    } - {"Exception"}
    shown = set(re.findall(r"\{py:exception\} (\w+)", PAGES["errors.md"]))
    assert shown == {name for name in raised if not name.startswith("_")}


def test_every_text_of_a_fault_is_there() -> None:
    said = PAGES["faults.md"].replace("\\", "")
    tables = [value for name, value in vars(fault_texts).items() if name.isupper() and isinstance(value, dict)]
    # What a run's outcome and a user's stop are called stands within other sentences.
    for texts in tables:
        if texts not in (fault_texts.OUTCOMES, fault_texts.STOPPED):
            assert [text for text in texts.values() if text not in said] == []
    assert len(tables) > 6


def test_the_page_of_faults_has_each_kind() -> None:
    _, _, rest = (DOCS / "faults.md").read_text().partition("| kind | |\n|---|---|\n")
    rows = re.findall(r"^\| ([a-z, ]+) \| ", rest.partition("\n\n")[0], re.MULTILINE)
    assert sorted(kind for row in rows for kind in row.split(", ")) == sorted(get_args(faults.Kind))


def test_the_benchmarks_that_make_runs_are_listed_and_no_part_of_one() -> None:
    listed = benchmarks.benchmarks(ROOT / "benchmarks")
    run = benchmarks.in_make_bench((ROOT / "Makefile").read_text())
    assert len(run) > 15
    assert set(run) <= set(listed)
    assert PAGES["benchmarks.md"].count("| yes |") == len(run)
    assert {"gpu", "soak", "torchrun"} <= set(listed)
    assert all(listed.values())
    assert [name for name in listed if name.endswith(("_program", "_side", "_steps"))] == []


def test_making_the_pages_imports_no_framework() -> None:
    program = (
        "import sys; sys.path.insert(0, 'docs'); from site_pages.writing import pages; pages(); "
        "print({name.partition('.')[0] for name in sys.modules} & "
        "{'tensorflow', 'keras', 'horovod', 'torch', 'jax', 'mpi4py', 'pynvml', 'sphinx'})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_pages_that_have_not_changed_keep_their_time(tmp_path: Path) -> None:
    writing.write(tmp_path)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    (tmp_path / "errors.md").write_text("old")
    writing.write(tmp_path)
    after = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert set(before) == set(PAGES)
    assert {name for name in before if after[name] != before[name]} == {"errors.md"}


def test_the_index_lists_each_page_once() -> None:
    listed = Counter(name for pages in contents.sections((DOCS / "index.md").read_text()).values() for name in pages)
    assert set(listed.values()) == {1}
    assert sorted(listed) == sorted(page.stem for page in DOCS.glob("*.md") if page.stem != "index")


def test_the_site_has_the_made_pages_in_its_contents() -> None:
    text = contents.with_contents((DOCS / "index.md").read_text())
    entries = re.findall(r"^reference/(\w+)$", text, re.MULTILINE)
    assert sorted(f"{name}.md" for name in entries) == sorted(PAGES)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_modules_run(name: str) -> None:
    module: Any = importlib.import_module(f"site_pages.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_readme_can_be_read_in_five_minutes() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert 'srcset="docs/images/cells-dark.png"' in text
    assert 'src="docs/images/cells-light.png"' in text
    for page in ("start", "come-from", "index"):
        assert f"(docs/{page}.md)" in text


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem)
def test_a_page_shows_its_pictures_in_both_themes_with_a_text(page: Path) -> None:
    text = page.read_text()
    dark, light, alt = (re.findall(f'^ .* {name}="([^"]+)"', text, re.MULTILINE) for name in ("srcset", "src", "alt"))
    assert [name.replace("-dark.", "-light.") for name in dark] == light
    assert text.count("<picture>") == len(dark) == len(alt)
    assert all((page.parent / name).is_file() for name in [*dark, *light])
    assert not re.findall(r"!\[[^]]*\]\([^)]+\.png\)", text)
    shown = project.for_site(text)
    assert "<picture>" not in shown
    assert shown.count(":class: only-dark") == shown.count(":class: only-light") == len(dark)


def test_no_picture_is_kept_that_no_page_shows() -> None:
    texts = "".join(page.read_text() for page in DOCS.glob("*.md"))
    assert not [file.name for file in DOCS.rglob("*.png") if f'"images/{file.name}"' not in texts]


def test_the_page_of_what_is_stable_names_each_module_of_the_reference() -> None:
    rows = (DOCS / "stability.md").read_text()
    assert set(re.findall(r"`(jupyter_ddl[\w.]*)`", rows)) == {*api.FACES.values(), "jupyter_ddl.errors"}
