"""Looks at every host before ranks start there, so that what is wrong is said of its host, and early.

mpiexec would fail late, with the text of a daemon, or hang: a host that asks for a password, a key that is not known,
an environment at another path, another version of TensorFlow.

Runs on: kernel.
"""

from __future__ import annotations

import os
import secrets
import selectors
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import files, run_module
from jupyter_ddl.launch.address import address_of, is_this_host
from jupyter_ddl.launch.call_back import listening
from jupyter_ddl.launch.clock_pings import PINGS, Ping, clock_offset_s
from jupyter_ddl.launch.container import module_in_image, script_in_image, set_for_images
from jupyter_ddl.launch.image_mpi import MpiVersions
from jupyter_ddl.launch.on_host import asking, on_host, with_our_paths
from jupyter_ddl.launch.survey_failures import NO_ENVIRONMENT, failure_in_image, failure_of, raise_for_all
from jupyter_ddl.launch.surveyed import Surveyed, check_alike, check_image, check_way_back, without_way_back
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from jupyter_ddl.launch.place import Place

# A host that is down does not answer; Python on a crowded file system takes its time.
CONNECT_S = 10
TIMEOUT_S = 60.0
_POLL_S = 0.02
_MOST_BYTES = 1 << 20


def survey(
    place: Place, mpiexec: Path, shared: Iterable[Path], given_up: threading.Event | None = None
) -> list[Surveyed]:
    """Look at all hosts of a place at once.

    Args:
        place: the hosts, and how to reach them.
        mpiexec: which must be on each host at the same path.
        shared: folders of which each host says whether it sees them.
        given_up: set, by another thread, to stop looking.

    Raises:
        HostUnfit: ranks cannot start on a host, or on several; the error names each and says why.
    """
    found = look(place, mpiexec, shared, given_up)
    check_way_back(found)
    return found


def look(
    place: Place,
    mpiexec: Path,
    shared: Iterable[Path],
    given_up: threading.Event | None = None,
    *,
    calls_back: bool = True,
) -> list[Surveyed]:
    """Look at all hosts of a place at once, and leave it to the caller whether each can connect to this one.

    Args:
        place: as `survey` takes it, and the others.
        mpiexec: likewise.
        shared: likewise.
        given_up: likewise.
        calls_back: whether that is tried; it takes seconds where a firewall drops what comes.

    Raises:
        HostUnfit: ranks cannot start on a host, from any other.
    """
    marks = [folder / f".survey-{secrets.token_hex(8)}" for folder in shared]
    with ExitStack() as stack:
        for mark in marks:
            files.replace(mark, "")
            stack.callback(mark.unlink)
        towards = stack.enter_context(listening(place.interface)) if calls_back else _nowhere
        asked = [stack.enter_context(_Question.ask(one.host, place, mpiexec, marks, towards)) for one in place.hosts]
        _wait(asked, given_up or threading.Event())
        found = _answers(asked)
    check_alike(found)
    if place.image_for_ranks is not None:
        check_image(place.image_for_ranks, found[0].versions)
    return found


@dataclass
class _Question:
    """One host that is being looked at; at the end of the block what asks it is gone.

    Attributes:
        back: where this host listens for it.
        last: of what it printed, the last part.
        said: what it found, once it has said so; pings follow.
        received_s: when that came.
        pings: those that were answered.
    """

    host: str
    place: Place
    is_here: bool
    back: str
    errors: IO[bytes]
    process: subprocess.Popen[bytes]
    last: bytes = b""
    said: dict[str, Any] | None = None
    received_s: float = 0.0
    pings: list[Ping] = field(default_factory=list)
    _sent_s: float = 0.0
    _begun: bytes = b""

    @classmethod
    @contextmanager
    def ask(
        cls, host: str, place: Place, mpiexec: Path, marks: list[Path], towards: Callable[[str], str]
    ) -> Iterator[_Question]:
        is_here = is_this_host(host)
        back = "" if is_here else towards(host)
        # A file and not a pipe: what a login prints may be long.
        with tempfile.TemporaryFile() as errors:
            command = _command(host, place, mpiexec, marks, back, is_here=is_here)
            with _found(command), asking(command, subprocess.PIPE, errors, stdin=subprocess.PIPE) as process:
                yield cls(host, place, is_here, back, errors, process)

    def read(self) -> bool:
        """Take what has come; return whether more may come."""
        assert self.process.stdout is not None
        now_s = time.time()
        data = os.read(self.process.stdout.fileno(), _MOST_BYTES)
        self.last = (self.last + data)[-_MOST_BYTES:]
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._take(line, now_s)
        return bool(data)

    def _take(self, line: bytes, now_s: float) -> None:
        if self.said is None:
            # A login's start-up files may print lines before it.
            self.said, self.received_s = _object(line), now_s
        else:
            with suppress(ValueError):
                self.pings.append(Ping(self._sent_s, float(line), now_s))
        if self.said is not None:
            self._ping()

    def _ping(self) -> None:
        """Send the next ping, or say that there is none: then the program there ends."""
        assert self.process.stdin is not None
        # Where it took no input, it has ended.
        with suppress(BrokenPipeError):
            if len(self.pings) < PINGS:
                self._sent_s = time.time()
                self.process.stdin.write(b"\n")
            else:
                self.process.stdin.close()

    def answer(self) -> Surveyed:
        """Return what the host said.

        Raises:
            HostUnfit: it said nothing that we understand, or cannot run ranks.
        """
        status = self.process.poll()
        said = self.said
        if said is None or status != 0:
            printed = _text_of(self.errors) or self.last.decode(errors="replace")
            image = self.place.container
            if image is not None and (failure := failure_in_image(self.host, image, status, printed)):
                raise failure
            raise failure_of(self.host, status, printed, place=self.place, timeout_s=TIMEOUT_S)
        if said["problem"]:
            raise HostUnfit(
                f"{self.host} must be able to run ranks.", said["problem"], "Mend that there, or leave it out."
            )
        if not said["has_mpiexec"]:
            raise failure_of(self.host, NO_ENVIRONMENT, "", place=self.place, timeout_s=TIMEOUT_S)
        return Surveyed(
            self.host,
            said["hostname"],
            "" if self.is_here else said["address"] or address_of(self.host),
            0.0 if self.is_here else clock_offset_s(self.pings, said["at_s"], self.received_s),
            said["versions"],
            said.get("mpi") and MpiVersions(**said["mpi"]),
            shares=all(said["has_marks"]),
            has_folder=said["has_folder"],
            temporary=said["temporary"],
            cores=said.get("cores", 1),
            unreached=f"{self.back} from there: {why}" if (why := said.get("unreached")) else "",
        )


@contextmanager
def _found(command: Sequence[str]) -> Iterator[None]:
    """Say that the command by which a host is reached cannot run here, where starting it raises."""
    try:
        yield
    except OSError as error:
        if error.filename != command[0]:
            raise
        raise HostUnfit(
            "The command that reaches a host must run here.",
            f"{command[0]} ({error.strerror})",
            "Install it, or name another: --ssh COMMAND.",
        ) from error


def _nowhere(_host: str) -> str:
    """Return where a host is to connect that is not asked to."""
    return ""


def _answers(asked: Sequence[_Question]) -> list[Surveyed]:
    """Return what each host said.

    Raises:
        HostUnfit: ranks cannot start on some of them.
    """
    found, failures = list[Surveyed](), dict[str, HostUnfit]()
    for question in asked:
        try:
            found.append(question.answer())
        except HostUnfit as failure:
            failures[question.host] = failure
    if failures:
        failures |= without_way_back(found)
    raise_for_all(failures, len(asked))
    return found


def _command(host: str, place: Place, mpiexec: Path, marks: list[Path], back: str, *, is_here: bool) -> list[str]:
    module = "jupyter_ddl.launch.remote_survey"
    working = os.getcwd()  # noqa: PTH109  as the shell spells it
    image = place.image_for_ranks
    if image is None:
        program = run_module.command(module, str(mpiexec), working, back, *map(str, marks))
    else:
        # mpiexec is the host's.
        program = module_in_image(image, [mark.parent for mark in marks], module, "", working, back, *map(str, marks))
    if is_here:
        return program
    script = (
        f"[ -x {shlex.quote(sys.executable)} ] && [ -x {shlex.quote(str(mpiexec))} ] || exit {NO_ENVIRONMENT}\n"
        + with_our_paths(program, *(() if image is None else set_for_images(os.environ)))
    )
    if place.is_inside and place.container is not None:
        script = script_in_image(place.container, script)
    return on_host(place, host, script, connect_s=CONNECT_S)


def _wait(asked: Sequence[_Question], given_up: threading.Event) -> None:
    """Read what the hosts say until all have ended, the time is up, or it is given up."""
    deadline_s = time.monotonic() + TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        for question in asked:
            assert question.process.stdout is not None
            selector.register(question.process.stdout, selectors.EVENT_READ, question)
        while time.monotonic() < deadline_s and not given_up.is_set():
            for key, _ in selector.select(_POLL_S):
                if not key.data.read():
                    selector.unregister(key.fileobj)
            if not selector.get_map():
                # Its output closes just before a process ends.
                given_up.wait(_POLL_S / 10)
            if all(question.process.poll() is not None for question in asked) and not selector.get_map():
                return


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_BYTES).decode(errors="replace")


def _object(line: bytes) -> dict[str, Any] | None:
    """Return what a host found, if this line of its output says so."""
    try:
        said = parse_json(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and {"hostname", "at_s", "problem"} <= set(said) else None
