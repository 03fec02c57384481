"""Renders argparse parsers as Markdown: for each command its usage, and a table of what it takes."""

from __future__ import annotations

import re
import textwrap
from argparse import PARSER, SUPPRESS, HelpFormatter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.commands.examples import TITLE

if TYPE_CHECKING:
    from argparse import Action, ArgumentParser
    from collections.abc import Iterable, Iterator

_WIDTH = 100
_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\*_<>\[\]$])")


@dataclass(frozen=True)
class Command:
    """One command of a parser that may have subcommands.

    Attributes:
        name: as it is written, e.g. "%ddl start".
        summary: one sentence or clause; "" where the parser has none.
        parser: of its own arguments.
    """

    name: str
    summary: str
    parser: ArgumentParser

    @property
    def actions(self) -> list[Action]:
        """Return its arguments, without the help and its subcommands."""
        return [one for one in self.parser._actions if one.dest not in ("help", "version") and not _has(one)]


def commands(parser: ArgumentParser, summary: str = "") -> Iterator[Command]:
    """Yield the commands of a parser, each subcommand after those above it; a parser that only has subcommands is none.

    Args:
        parser: of argparse; its `prog` is the command's name.
        summary: what the parser above says of it; by default its own description.

    Example:
        >>> from jupyter_ddl.cli import command_parser
        >>> [command.name for command in commands(command_parser())][:2]
        ['jupyter ddl build-horovod', 'jupyter ddl doctor']
    """
    below = [action for action in parser._actions if _has(action)]
    if not below:
        yield Command(parser.prog, parser.description or summary, parser)
    for action in below:
        assert isinstance(action.choices, dict)
        listed: list[Action] = getattr(action, "_choices_actions")  # noqa: B009  not in its type
        summaries = {choice.dest: _help(choice, parser) for choice in listed}
        for name, subparser in action.choices.items():
            yield from commands(subparser, summaries.get(name, ""))


def render(command: Command) -> str:
    """Return a command's section of a page."""
    parts = [f"## `{command.name}`", _sentence(escaped(command.summary)), _usage(command.parser)]
    shown = [action for action in command.actions if not _is_hidden(action)]
    hidden = [action for action in command.actions if _is_hidden(action)]
    if shown:
        parts.append(_options(("argument", "value", "meaning"), (_row(action, command.parser) for action in shown)))
    if hidden:
        parts.append("Also taken, as other launchers spell it:")
        rows = ((_names(action), _meaning_of_hidden(action, shown)) for action in hidden)
        parts.append(_options(("option", "here"), rows))
    said, _, examples = (command.parser.epilog or "").partition(f"{TITLE}\n")
    parts.append(escaped(said.strip()))
    if examples:
        parts.append(f"```text\n{textwrap.dedent(examples)}\n```")
    return "\n\n".join(part for part in parts if part)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    r"""Return a table of Markdown; `|` in a cell is escaped, and nothing else.

    Example:
        >>> print(table(("a", "b"), [("1", "x|y")]))
        | a | b |
        |---|---|
        | 1 | x\|y |
    """
    head = list(head)
    lines = [head, *rows]
    rendered = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([rendered[0], "|" + "---|" * len(head), *rendered[1:]])


def _options(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of the class by which docs/site_static/site.css keeps an option in one line."""
    return f"```{{table}}\n:class: options\n\n{table(head, rows)}\n```"


def escaped(text: str) -> str:
    r"""Return text with what Markdown would read as its own escaped, but for `code`.

    Example:
        >>> escaped("a_b <c> and `d_e`")
        'a\\_b \\<c\\> and `d_e`'
    """
    parts = _CODE.split(text)
    return "".join(part if _CODE.fullmatch(part) else _SPECIAL.sub(r"\\\1", part) for part in parts)


def _has(action: Action) -> bool:
    """Return whether an argument of a parser stands for its subcommands."""
    return action.nargs == PARSER


def _is_hidden(action: Action) -> bool:
    return action.help == SUPPRESS


def _help(action: Action, parser: ArgumentParser) -> str:
    """Return an argument's help as argparse prints it."""
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _row(action: Action, parser: ArgumentParser) -> tuple[str, str, str]:
    return _names(action), _value(action), escaped(_help(action, parser))


def _names(action: Action) -> str:
    if action.option_strings:
        return ", ".join(f"`{name}`" for name in action.option_strings)
    return f"`{_metavar(action)}`"


def _value(action: Action) -> str:
    if action.nargs == 0 or not action.option_strings:
        return ""
    return f"`[{_metavar(action)}]`" if action.nargs == "?" else f"`{_metavar(action)}`"


def _metavar(action: Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        return action.metavar
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest


def _meaning_of_hidden(action: Action, shown: list[Action]) -> str:
    """Return what comes of another launcher's option; `const` is a sentence, or the only value and a sentence."""
    if isinstance(action.const, str):
        return escaped(_sentence(action.const))
    if isinstance(action.const, tuple):
        value, otherwise = action.const
        return f"`{value}`: no effect, so it is here. Another value is refused: {escaped(otherwise)}"
    same = next((_names(one) for one in shown if one.dest == action.dest), "")
    return f"The same as {same}." if same else f"Takes `{_metavar(action)}`, as there."


def _sentence(text: str) -> str:
    if not text:
        return ""
    text = text[0].upper() + text[1:] if text[0] != "`" else text
    return text if text.endswith(".") else f"{text}."


def _usage(parser: ArgumentParser) -> str:
    # As parser.format_usage, at a width that does not depend on a terminal.
    formatter = HelpFormatter(parser.prog, width=_WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups)
    usage = formatter.format_help().removeprefix("usage: ").rstrip().replace("\n       ", "\n")
    if parser.usage:
        # argparse leaves a usage that is written out as it is.
        usage = textwrap.fill(usage, _WIDTH, subsequent_indent=" " * (len(parser.prog) + 1))
    return f"```text\n{usage}\n```"
