"""The grammar of `benchmarks.fuzz`: what a cell may do to its rank, how it ends, and what may be told of it then.

A cell is some pieces of sabotage and an ending. What is told of it must be what its ending says; a piece that may
raise, or that takes from the rank what it needs to be released, allows more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterLost, DdlError, RankError, RunInterrupted, RunTimedOut

if TYPE_CHECKING:
    import random

FINISHED = type(None)


@dataclass(frozen=True)
class Piece:
    """Some lines of sabotage.

    Attributes:
        code: the lines; `{victim}` is the rank of the program.
        may_raise: the cell may end with its error, in place of its ending's.
        may_resist: ranks may not be interrupted any more: they are replaced, after some 20 s.
        spoils: IPython itself may not work after it: the next cell may end with an error too.
    """

    code: str
    may_raise: bool = False
    may_resist: bool = False
    spoils: bool = False


@dataclass(frozen=True)
class Ending:
    """The last lines of a cell, and what is done to it meanwhile.

    Attributes:
        code: the lines; `{victim}` as above.
        told: what the cell may raise.
        text: a part of what is told, in the error or among its causes.
        timeout_s: the cell's.
        signal: sent to the victim from outside, 0.7 s after the cell's beginning.
        interrupt: done to the session then: "panel" and "button" interrupt the cell, the second as SIGINT to this
            process; "restart" starts other ranks.
        weight: how often it comes, among the others.
    """

    code: str
    told: tuple[type, ...]
    text: str = ""
    timeout_s: float | None = None
    signal: str | None = None
    interrupt: str | None = None
    weight: float = 1.0


# Run on new ranks before any other cell. `wait` is what no piece takes away.
SETUP = """
import builtins, codecs, gc, json, os, signal, subprocess, sys, threading, time, warnings
import jupyter_ddl
_kept = [(time, name, getattr(time, name)) for name in ("sleep", "time", "monotonic", "perf_counter")]
_kept += [(json, name, getattr(json, name)) for name in ("dumps", "loads")]
_kept += [(builtins, name, getattr(builtins, name)) for name in ("print", "open", "len", "isinstance", "repr", "str")]
_kept += [(threading.Thread, "start", threading.Thread.start), (os, "write", os.write), (os, "dup", os.dup)]
_kept += [(sys, name, getattr(sys, name)) for name in ("excepthook", "unraisablehook", "exc_info")]
_kept += [(signal, "signal", signal.signal), (gc, "collect", gc.collect)]
_wait, _children, _limit = time.sleep, [], sys.getrecursionlimit()
_descriptors = os.dup(1), os.dup(2)
def _raise(*_, **__):
    raise RuntimeError("sabotage")
def _restore():
    for owner, name, value in _kept:
        setattr(owner, name, value)
    sys.setrecursionlimit(_limit)
    sys.settrace(None)
    threading.settrace(None)
    sys.setprofile(None)
    warnings.resetwarnings()
    gc.enable()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    for number, kept in enumerate(_descriptors, 1):
        os.dup2(kept, number)
        name = ("stdout", "stderr")[number - 1]
        stream = getattr(sys, name, None)
        # What the cell itself put there stays, in any Python, and prints nothing or raises.
        if not hasattr(stream, "write") or getattr(stream, "closed", False):
            setattr(sys, name, builtins.open(number, "w", closefd=False))
    while _children:
        pid = _children.pop()
        try:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        except OSError:
            pass
"""
RESTORE = "_restore()"

SABOTAGE = {
    "stdout rewrapped": Piece("sys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())"),
    "stderr detached": Piece("sys.stderr.detach()"),
    "stdout None": Piece("sys.stdout = None", may_raise=True),
    "stderr None": Piece("sys.stderr = None", may_raise=True),
    "stdout deleted": Piece("del sys.stdout", may_raise=True),
    "stdout closed": Piece("sys.stdout.close()"),
    "stdout of no type": Piece("sys.stdout = 7", may_raise=True),
    # A rank's streams write to its descriptors, so that what prints after it raises, IPython's own warnings too.
    "descriptor 1 closed": Piece("os.close(1)", may_raise=True),
    "descriptor 2 closed": Piece("os.close(2)", may_raise=True),
    "descriptor 1 to a file": Piece("_fd = os.open(os.devnull, os.O_WRONLY); os.dup2(_fd, 1); os.close(_fd)"),
    "warnings are errors": Piece("warnings.simplefilter('error')"),
    "a warning of Python": Piece("warnings.warn('sabotage')", may_raise=True),
    "json.dumps makes bytes": Piece("json.dumps = lambda *_, **__: b'{}'", may_raise=True),
    "json.dumps raises": Piece("json.dumps = _raise", may_raise=True),
    "json.loads raises": Piece("json.loads = _raise", may_resist=True),
    "time.sleep raises": Piece("time.sleep = _raise"),
    "time.time stands": Piece("time.time = lambda: 0.0"),
    "time.time raises": Piece("time.time = _raise"),
    "time.monotonic stands": Piece("time.monotonic = lambda: 0.0"),
    "no thread": Piece("threading.Thread.start = _raise", may_raise=True),
    "os.dup raises": Piece("os.dup = _raise"),
    "traced": Piece("sys.settrace(lambda *_: None)"),
    "traced by what raises": Piece("threading.settrace(_raise)"),
    "print is None": Piece("builtins.print = None"),
    "open raises": Piece("builtins.open = _raise", may_raise=True),
    "repr raises": Piece("builtins.repr = _raise", may_raise=True, spoils=True),
    "len is None": Piece("builtins.len = None", may_raise=True, spoils=True),
    "isinstance is None": Piece("builtins.isinstance = None", may_raise=True, spoils=True),
    "a low recursion limit": Piece("sys.setrecursionlimit(80)", may_raise=True, spoils=True),
    "hooks are None": Piece("sys.excepthook = sys.unraisablehook = None"),
    "gc.collect raises": Piece("gc.collect = _raise"),
    "SIGINT ignored": Piece("signal.signal(signal.SIGINT, signal.SIG_IGN)", may_resist=True),
    "signals blocked": Piece("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])", may_resist=True),
    "SIGTERM ignored": Piece("signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    "an alarm": Piece("signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.3)"),
    "report of NaN": Piece("jupyter_ddl.report(1, loss=float('nan'), other=float('inf'))", may_raise=True),
    "report of a huge number": Piece("jupyter_ddl.report(10**400)", may_raise=True),
    "report of a surrogate": Piece("jupyter_ddl.report(1, **{'\\udcff': 1.0})", may_raise=True),
    "report of an odd loss": Piece("jupyter_ddl.report(1, loss='high')", may_raise=True),
    "print of a surrogate": Piece("print('\\udcff')", may_raise=True),
    "much output": Piece("for _i in range(3000): print(_i, 'x' * 50)", may_raise=True),
    "a half line of output": Piece("print('[2026-' * 2000, end='')", may_raise=True),
    "a forked child": Piece("_pid = os.fork()\nif not _pid: _wait(600); os._exit(0)\n_children.append(_pid)"),
    "a daemon": Piece("_pid = os.fork()\nif not _pid: os.setsid(); _wait(600); os._exit(0)\n_children.append(_pid)"),
    "a subprocess": Piece("_children.append(subprocess.Popen(['sleep', '600']).pid)", may_raise=True),
    "printing threads": Piece(
        "for _ in range(5): threading.Thread(target=lambda: [print('t') for _ in range(50)], daemon=True).start()",
        may_raise=True,
    ),
    "a thread that raises": Piece("threading.Thread(target=_raise).start()", may_raise=True),
    "the environment cleared": Piece("os.environ.clear()", may_raise=True),
    "no working folder": Piece("import tempfile; _d = tempfile.mkdtemp(); os.chdir(_d); os.rmdir(_d)", may_raise=True),
    "the namespace's In": Piece("In = Out = get_ipython = None"),
    "the rank's names deleted": Piece("del rank, local_rank, world_size", may_raise=True),
    "an odd displayhook": Piece("sys.displayhook = _raise; sys.ps1 = 7", may_raise=True),
}

_LOOP = "while True: _wait(0.05)"
_ON_VICTIM = "if rank == {victim}: "
ENDINGS = {
    "a value": Ending("rank * 2", (FINISHED,), weight=3),
    "nothing": Ending("_wait(0.3)", (FINISHED,)),
    "all raise": Ending("1 / 0", (RankError,), "ZeroDivisionError", weight=2),
    "one raises": Ending(_ON_VICTIM + "1 / 0\n" + _LOOP, (RankError,), "ZeroDivisionError", weight=2),
    "SystemExit": Ending("raise SystemExit(3)", (RankError,), "SystemExit"),
    "KeyboardInterrupt": Ending("raise KeyboardInterrupt", (RankError, RunInterrupted)),
    "an error without a text": Ending(
        "class Odd(Exception):\n    def __str__(self): _raise()\nraise Odd", (RankError,), "Odd"
    ),
    "a syntax error": Ending("1 +", (RankError,), "SyntaxError"),
    "a timeout": Ending(_LOOP, (RunTimedOut,), timeout_s=1.0, weight=2),
    "a timeout in C": Ending("_wait(600)", (RunTimedOut,), timeout_s=1.0),
    "an interrupt by the panel": Ending(_LOOP, (RunInterrupted,), interrupt="panel", weight=2),
    "an interrupt by the button": Ending(_LOOP, (RunInterrupted,), interrupt="button", weight=2),
    "a restart": Ending(_LOOP, (ClusterLost,), interrupt="restart"),
    "kill -9 from outside": Ending(_LOOP, (ClusterLost,), "rank {victim} on ", signal="SIGKILL", weight=2),
    "SIGTERM from outside": Ending(_LOOP, (ClusterLost,), signal="SIGTERM"),
    "SIGSTOP for a second": Ending("_wait(2)\nrank * 2", (FINISHED,), signal="SIGSTOP"),
    "kill -9 of itself": Ending(_ON_VICTIM + "os.kill(os.getpid(), 9)\n" + _LOOP, (ClusterLost,), "rank {victim} on "),
    "os._exit": Ending(_ON_VICTIM + "os._exit(0)\n" + _LOOP, (ClusterLost,)),
    "a segmentation fault": Ending(
        _ON_VICTIM + "import ctypes; ctypes.string_at(0)\n" + _LOOP, (ClusterLost,), "rank {victim} on "
    ),
}


@dataclass(frozen=True)
class Program:
    """A cell of the grammar.

    Attributes:
        number: which of its seed.
        victim: the rank that faults hit.
        pieces: names of SABOTAGE.
        ending: a name of ENDINGS.
    """

    number: int
    victim: int
    pieces: tuple[str, ...]
    ending: str

    @property
    def end(self) -> Ending:
        """How it ends."""
        return ENDINGS[self.ending]

    @property
    def code(self) -> str:
        """The cell."""
        lines = [SABOTAGE[name].code for name in self.pieces] + [self.end.code]
        return "\n".join(lines).replace("{victim}", str(self.victim))

    @property
    def told(self) -> tuple[type, ...]:
        """What the cell may raise; NoneType where it may finish."""
        pieces = [SABOTAGE[name] for name in self.pieces]
        if any(piece.spoils for piece in pieces):
            return (FINISHED, DdlError)
        more: tuple[type, ...] = ()
        if self._may_raise:
            more += (RankError,)
        if any(piece.may_resist for piece in pieces) and self.end.told != (FINISHED,):
            more += (ClusterLost,)
        return self.end.told + more

    @property
    def text(self) -> str:
        """A part of what must be told; empty where a piece may have raised before its ending."""
        return "" if self._may_raise else self.end.text.format(victim=self.victim)

    @property
    def _may_raise(self) -> bool:
        """Whether the cell may end with a piece's error: also of a second one for a stream that a first one broke."""
        pieces = [SABOTAGE[name] for name in self.pieces]
        streams = [piece for piece in pieces if "sys.std" in piece.code]
        return len(streams) > 1 or any(piece.may_raise for piece in pieces)

    @property
    def spoils(self) -> bool:
        """Whether the next cell may end with an error too."""
        return any(SABOTAGE[name].spoils for name in self.pieces)

    def __str__(self) -> str:
        return f"program {self.number} (victim {self.victim}): {', '.join(self.pieces) or 'no sabotage'}; {self.ending}"


def program(number: int, world_size: int, chance: random.Random, *, quick: bool) -> Program:
    """Return a random program.

    Args:
        number: what it is called.
        world_size: the number of ranks.
        chance: its randomness, which is nobody else's.
        quick: none that may take until released ranks are given up.
    """
    ending = chance.choices(list(ENDINGS), [ending.weight for ending in ENDINGS.values()])[0]
    names = [name for name, piece in SABOTAGE.items() if not (quick and piece.may_resist)]
    pieces = chance.sample(names, chance.choices((0, 1, 2, 3), (1, 4, 3, 2))[0])
    return Program(number, chance.randrange(world_size), tuple(pieces), ending)
