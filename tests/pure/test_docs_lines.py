"""What the documentation has readers type is what the parsers take: each option of each line of ours, on all pages."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli import command_parser
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser
from jupyter_ddl.kernel.magics.distributed import distributed_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
# A line of ours ends where a script's name, a shell's operator, or a remark begins.
LINE = re.compile(r"(?:%ddl|%%distributed|jupyter ddl)(?=[ `\n]|$)[^`\n]*")
END = re.compile(r"\.py\b|[|;&#]| {3,}| -- |, (?=%|jupyter)")


def below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from below(subparser)


PARSERS = {
    parser.prog: parser for root in (ddl_parser(), distributed_parser(), command_parser()) for parser in below(root)
}


def parser_of(line: str) -> argparse.ArgumentParser:
    """Return the parser of the command that a line begins with."""
    known = [prog for prog in PARSERS if re.match(rf"{re.escape(prog)}(?![\w-])", line)]
    return PARSERS[max(known, key=len)]


def lines(text: str) -> list[str]:
    """Return the lines of ours in a page's code: in its blocks, and between backticks."""
    blocks = re.findall(r"^ *```.*?^ *```|^ {4,}.*$", text, re.MULTILINE | re.DOTALL)
    code = [*blocks, *re.findall(r"`[^`\n]+`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))]
    found = [match[0] for part in code for match in LINE.finditer(part)]
    return [END.split(line)[0].replace("\\", "") for line in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_on_a_page_is_taken(page: Path) -> None:
    unknown = []
    for line in lines(page.read_text()):
        options = re.findall(r"(?<![\w='\"-])(--[a-z][\w-]*|-[a-zA-Z])(?![\w-])", re.sub(r"'[^']*'", "", line))
        known = parser_of(line)._option_string_actions
        unknown += [f"{option} in {line!r}" for option in options if option not in known]
    assert unknown == []


def test_the_lines_are_found() -> None:
    found = [line for page in PAGES for line in lines(page.read_text())]
    assert len(found) > 300
    assert {parser_of(line).prog for line in found} > {"%ddl start", "%%distributed", "jupyter ddl run", "%ddl submit"}
