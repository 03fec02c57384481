"""Looks at every host before ranks start there, so that what is wrong is said of its host, and early.

mpiexec would fail late, with the text of a daemon, or hang: a host that asks for a password, a key that is not known,
an environment at another path, another version of TensorFlow.

Runs on: kernel.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import files, run_module
from jupyter_ddl.launch.address import address_of, is_this_host
from jupyter_ddl.launch.on_host import asking, on_host
from jupyter_ddl.launch.survey_failures import NO_ENVIRONMENT, NO_FOLDER, failure_of
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from jupyter_ddl.launch.place import Place

# A host that is down does not answer; Python on a crowded file system takes its time.
CONNECT_S = 10
TIMEOUT_S = 60.0
_POLL_S = 0.02
_CARRIED = ("PYTHONPATH", "LD_LIBRARY_PATH", "PATH")


@dataclass(frozen=True)
class Surveyed:
    """What was found on a host.

    Attributes:
        host: the name with which it was given.
        hostname: its own.
        address: by which it was reached; empty for this host.
        clock_offset_s: its clock minus this host's, in seconds; too small by the time of the answer's way, some 0.05.
    """

    host: str
    hostname: str
    address: str
    clock_offset_s: float
    versions: dict[str, str]


def survey(
    place: Place, mpiexec: Path, shared: Mapping[str, Path], given_up: threading.Event | None = None
) -> list[Surveyed]:
    """Look at all hosts of a place at once.

    Args:
        place: the hosts, and how to reach them.
        mpiexec: which must be on each host at the same path.
        shared: folders that every host must see, by the variable that puts each elsewhere.
        given_up: set, by another thread, to stop looking.

    Raises:
        HostUnfit: ranks cannot start on a host; the error names it and says why.
    """
    marks = {variable: folder / f".survey-{secrets.token_hex(8)}" for variable, folder in shared.items()}
    with ExitStack() as stack:
        for mark in marks.values():
            files.replace(mark, "")
            stack.callback(mark.unlink)
        asked = [
            stack.enter_context(_Question.ask(one.host, place, [str(mpiexec), *map(str, marks.values())]))
            for one in place.hosts
        ]
        _wait(asked, given_up or threading.Event())
        found = [question.answer(shared) for question in asked]
    check_alike(found)
    return found


@dataclass
class _Question:
    """One host that is being looked at; at the end of the block what asks it is gone."""

    host: str
    place: Place
    is_here: bool
    output: IO[bytes]
    errors: IO[bytes]
    process: subprocess.Popen[bytes]
    ended_s: float = 0.0

    @classmethod
    @contextmanager
    def ask(cls, host: str, place: Place, arguments: list[str]) -> Iterator[_Question]:
        is_here = is_this_host(host)
        # Files and not pipes: what a login prints may be long.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            command = _command(host, place, arguments, is_here=is_here)
            with asking(command, output, errors) as process:
                yield cls(host, place, is_here, output, errors, process)

    def has_ended(self) -> bool:
        if self.process.poll() is None:
            return False
        self.ended_s = self.ended_s or time.time()
        return True

    def answer(self, shared: Mapping[str, Path]) -> Surveyed:
        """Return what the host said.

        Raises:
            HostUnfit: it said nothing that we understand, or cannot run ranks.
        """
        output, errors = (_text_of(file) for file in (self.output, self.errors))
        status = self.process.poll()
        said = _last_object(output) if status == 0 else None
        if said is None:
            raise failure_of(self.host, status, errors or output, place=self.place, timeout_s=TIMEOUT_S)
        if said["problem"]:
            raise HostUnfit(
                f"{self.host} must be able to run ranks.", said["problem"], "Mend that there, or leave it out."
            )
        if not said["has_mpiexec"]:
            raise failure_of(self.host, NO_ENVIRONMENT, "", place=self.place, timeout_s=TIMEOUT_S)
        for (variable, folder), has_mark in zip(shared.items(), said["has_marks"], strict=True):
            if not has_mark:
                raise HostUnfit(
                    "Ranks and their kernel must share the folders of the clusters and of the runs.",
                    f"{folder}, which {self.host} does not see",
                    f"Set {variable} to a folder that all hosts share, before JupyterLab starts.",
                )
        return Surveyed(
            self.host,
            said["hostname"],
            "" if self.is_here else said["address"] or address_of(self.host),
            said["at_s"] - self.ended_s,
            said["versions"],
        )


def _command(host: str, place: Place, arguments: list[str], *, is_here: bool) -> list[str]:
    program = run_module.command("jupyter_ddl.launch.remote_survey", *arguments)
    if is_here:
        return program
    carried = [f"{name}={os.environ[name]}" for name in _CARRIED if os.environ.get(name)]
    script = (
        f"cd {shlex.quote(os.getcwd())} || exit {NO_FOLDER}\n"  # noqa: PTH109  as the shell spells it
        f"[ -x {shlex.quote(sys.executable)} ] || exit {NO_ENVIRONMENT}\n"
        f"exec env {shlex.join([*carried, *program])}"
    )
    return on_host(place, host, script, connect_s=CONNECT_S)


def _wait(asked: Sequence[_Question], given_up: threading.Event) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    pending = list(asked)
    while pending and time.monotonic() < deadline_s and not given_up.wait(_POLL_S):
        pending = [question for question in pending if not question.has_ended()]


def check_alike(found: Sequence[Surveyed]) -> None:
    """Check that hosts are different ones, with the same versions.

    Raises:
        HostUnfit: one is not.
    """
    first, *others = found
    for other in others:
        if other.hostname in {one.hostname for one in found if one is not other}:
            raise HostUnfit(
                "Each host must be named once.",
                f"{other.host}, which is {other.hostname} like another one of them",
                "Leave one out, and add up their slots.",
            )
        for name, version in other.versions.items():
            if version != first.versions.get(name):
                raise HostUnfit(
                    "All hosts must have the same versions.",
                    f"{name} {first.versions.get(name)} on {first.host}, {version} on {other.host}",
                    f"Install the same on {other.host}, or start JupyterLab from an environment that all hosts share.",
                )


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(1 << 20).decode(errors="replace")


def _last_object(output: str) -> dict[str, Any] | None:
    """Return the JSON object in the last line: a login's start-up files may print lines before it."""
    lines = output.strip().splitlines()
    try:
        said = parse_json(lines[-1]) if lines else None
    except ValueError:
        return None
    return said if isinstance(said, dict) and {"hostname", "at_s", "problem"} <= set(said) else None
