"""Reads what job a notebook's own cells ask for: `%ddl submit ...`, or `jupyter_ddl.submit(...)`."""

from __future__ import annotations

import argparse
import ast
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from jupyter_ddl.cluster.submission import Wanted, check_wanted, wanted_of
from jupyter_ddl.cluster.submit_options import add_submit_options, given_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.export.notebook import calls, code_cells, magic_lines
from jupyter_ddl.launch.profiles.profile import SUBMITS
from jupyter_ddl.launch.profiles.reading import profile_named

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a job has for any scheduler; the rest is for one.
PORTABLE = ("nodes", "ntasks_per_node", "time", "gpus_per_node", "cpus_per_task")
# The positional arguments of `jupyter_ddl.submit`, the types of those that say what job it is, and the others.
_POSITIONS = ("nodes", "ntasks_per_node")
_TYPES = dict.fromkeys((*_POSITIONS, "gpus_per_node", "cpus_per_task"), int) | dict.fromkeys(
    ("time", "partition", "account", "container", "launcher", "profile"), str
)
_OF_THE_CLUSTER = ("name", "keep", "rebuild", "progress")


@dataclass(frozen=True)
class Asked:
    """A job that a cell asks for.

    Attributes:
        text: the line, as an error shows it.
        profile: None without one.
        given: fields of `Wanted` by their names; only what was given.
    """

    text: str = field(compare=False)
    profile: str | None
    given: dict[str, Any]

    def wanted(self) -> Wanted:
        """Return what it asks for, with what its profile says.

        Raises:
            InvalidInput: there is no such profile, it allows less, or an option breaks a rule.
        """
        wanted = wanted_of(self.profile, self.given, name=None, keep=False, rebuild=True)
        check_wanted(wanted)
        return wanted

    def options_for(self, kind: str, profile: str | None) -> tuple[dict[str, Any], str | None]:
        """Return the options of the job for an export, and the profile.

        Args:
            kind: what the export is for.
            profile: that the user gave; None without one.

        Raises:
            InvalidInput: as `wanted`.
        """
        if profile in (None, self.profile) and self.fits(kind):
            # jsrun is LSF's.
            left = ("container",) if kind == "lsf" else ("container", "launcher")
            return {name: value for name, value in self.given.items() if name not in left}, self.profile
        # Without a profile only what was given: what is not, the user's own profile says. 0 GPUs are as none given.
        said = self.given if self.profile is None else vars(self.wanted())
        return {name: said[name] for name in PORTABLE if said.get(name)}, profile

    def fits(self, kind: str) -> bool:
        """Return whether its partition, account and options are for a scheduler of this kind."""
        if kind not in SUBMITS:
            return False
        return self.profile is None or profile_named(self.profile).profile.launcher == kind


def jobs_of(notebook: Any) -> list[Asked]:
    """Return the jobs that a notebook's cells ask for, each once, but for lines that are wrong or have variables."""
    found = [asked for cell in code_cells(notebook) for asked in (*_of_magics(cell.source), *_of_calls(cell.source))]
    return [one for at, one in enumerate(found) if one not in found[:at]]


def the_one_of(jobs: list[Asked]) -> Asked | None:
    """Return the job that an export takes what was not given from; None where no cell asks for one.

    Raises:
        InvalidInput: the cells ask for different ones.
    """
    if len(jobs) > 1:
        raise InvalidInput(
            "The job of an export is one, whatever its notebook submits.",
            " and ".join(one.text for one in jobs[:2]),
            "Say which: add --profile NAME, or -N and --ntasks-per-node.",
        )
    return jobs[0] if jobs else None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _of_magics(source: str) -> Iterator[Asked]:
    for word, rest in magic_lines(source):
        if word != "submit":
            continue
        parser = _Parser(add_help=False)
        add_submit_options(parser)
        try:
            arguments = parser.parse_args(shlex.split(rest))
        except ValueError:
            # The cell says so when it runs.
            continue
        if not arguments.print_script:
            yield Asked(f"%ddl submit{rest.rstrip()}", arguments.profile, _given(given_of(arguments)))


def _of_calls(source: str) -> Iterator[Asked]:
    for call in calls(source, "submit"):
        named = dict(zip(_POSITIONS, call.args, strict=False))
        named |= {word.arg: word.value for word in call.keywords if word.arg is not None}
        try:
            values = {name: ast.literal_eval(node) for name, node in named.items() if name not in _OF_THE_CLUSTER}
        except ValueError:
            continue
        options = tuple(values.pop("options", ()))
        if all(isinstance(value, _TYPES.get(name, type(None)) | None) for name, value in values.items()):
            profile = values.pop("profile", None)
            yield Asked(ast.unparse(call), profile, _given({**values, "options": options}))


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, ())}
