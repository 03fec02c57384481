"""Random cells of sabotage, times random faults: each ends, is told rightly, and the next cell works.

    python -m benchmarks.fuzz                        100 programs, 20 minutes at most (`make soak`)
    python -m benchmarks.fuzz --seed 4 --only 17     one of them again, and its cell

`benchmarks.sabotage` has the grammar. Without TensorFlow. A program that did not hold is printed with its seed and its
cell; the JSON line has all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

import jupyter_ddl
from benchmarks.sabotage import RESTORE, SETUP, program
from benchmarks.soak import folders, measure
from jupyter_ddl.errors import ClusterLost, DdlError

if TYPE_CHECKING:
    from benchmarks.sabotage import Program
    from jupyter_ddl.kernel.session import Session

RANKS = 2
# Longer than a release that is not answered, and new ranks after it, may take on a busy machine.
HUNG_S = 120.0
_FAULT_AFTER_S = 0.7
_STOPPED_S = 1.0
_MARK = "JUPYTER_DDL_FUZZ"
_SETTLED_S = 10.0


@dataclass
class Fuzz:
    """Runs programs, one after another, on one session.

    Attributes:
        problems: what did not hold.
        longest_s: how long the longest program took, with its next cell.
        told: how often what was raised.
    """

    session: Session
    seed: int
    problems: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    told: dict[str, int] = field(default_factory=dict)
    _is_struck: bool = False

    def one(self, cell: Program) -> None:
        """Run a program and the cell after it."""
        began_s = time.monotonic()
        raised, stuck = _within(lambda: self._run(cell))
        name = type(raised).__name__ if raised is not None else "finished"
        self.told[name] = self.told.get(name, 0) + 1
        if stuck:
            self._note(cell, f"it has no end within {HUNG_S:g} s")
            # What is left of it must not be taken for the next program's.
            self.session.restart()
            return
        if not any(isinstance(raised, kind) for kind in cell.told):
            self._note(cell, f"it raised {raised!r}, and not {' or '.join(kind.__name__ for kind in cell.told)}")
        elif isinstance(raised, cell.end.told) and cell.text not in _all_told(raised):
            self._note(cell, f"it told {_all_told(raised)!r}, and not {cell.text!r}")
        self._next(cell, raised)
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def _next(self, cell: Program, raised: object) -> None:
        """Run the cell after a program, and put right what the program did to its rank."""
        if self._is_struck and not isinstance(raised, ClusterLost):
            # The cell ended by itself just when its rank was ended: the one after it is told of that.
            _within(lambda: self._values("rank"))
        values, stuck = _within(lambda: self._values("rank * 3"))
        if stuck:
            self._note(cell, f"the next cell has no end within {HUNG_S:g} s")
        elif values != [str(rank * 3) for rank in range(RANKS)] and not cell.spoils:
            self._note(cell, f"the next cell came to {values}")
        restored, stuck = (
            ([], True) if stuck else _within(lambda: self._values(f"{RESTORE}; print('said'); rank", said=True))
        )
        if restored != [f"{rank} said\n" for rank in range(RANKS)] or stuck:
            if not (cell.spoils or stuck):
                self._note(cell, f"the cell that restores and prints came to {restored}")
            self.session.restart()
        moved, stuck = _within(self._moved)
        if moved != self._sent or stuck:
            self._note(cell, f"values that were pushed and pulled came back as {moved!r}")

    @property
    def _sent(self) -> dict[int, list[Any]]:
        return {rank: [len(self.told), None, 2.5, "x" * 10_000] for rank in range(RANKS)}

    def _moved(self) -> object:
        """Return what a pull makes of a push."""
        try:
            self.session.push({"moved": self._sent[0]})
            return self.session.pull("moved")
        except DdlError as error:
            return error

    def _run(self, cell: Program) -> BaseException | None:
        self._is_struck = False
        helper = threading.Timer(_FAULT_AFTER_S, self._fault, (cell,))
        helper.start()
        try:
            result = self.session.run(cell.code, timeout_s=cell.end.timeout_s)
        except DdlError as error:
            return error
        finally:
            # A cell that ended before its fault has none: the next one must not have it.
            helper.cancel()
            helper.join()
        if cell.end.code.endswith("rank * 2") and not cell.spoils:
            values = [result.ranks[rank].value for rank in range(RANKS)]
            # A displayhook, or stdout, that the cell itself broke shows no value.
            if any(value not in (str(rank * 2), None) for rank, value in enumerate(values)):
                self._note(cell, f"its values are {values}")
        return None

    def _fault(self, cell: Program) -> None:
        end = cell.end
        if end.interrupt == "panel":
            self.session.interrupt("the panel")
        elif end.interrupt == "restart":
            self.session.restart()
        elif end.interrupt == "button":
            # To the thread that runs the cell: here the main one.
            os.kill(os.getpid(), signal.SIGINT)
        elif end.signal is not None:
            pid = self.session.ranks[cell.victim].pid
            # It may have ended by what its cell did before.
            with suppress(ProcessLookupError):
                os.kill(pid, getattr(signal, end.signal))
                self._is_struck = end.signal != "SIGSTOP"
                if end.signal == "SIGSTOP":
                    time.sleep(_STOPPED_S)
                    os.kill(pid, signal.SIGCONT)

    def _values(self, code: str, *, said: bool = False) -> list[str]:
        try:
            ranks = self.session.run(code).ranks
        except DdlError as error:
            return [repr(error)[:500]]
        return [f"{ranks[rank].value}" + (f" {ranks[rank].stdout}" if said else "") for rank in range(RANKS)]

    def _note(self, cell: Program, what: str) -> None:
        told = f"seed {self.seed}, {cell}: {what}\n--- its cell\n{cell.code}\n---"
        print(told, file=sys.stderr, flush=True)
        self.problems.append(told)


def _within(call: Any) -> tuple[Any, bool]:
    """Return what a call returns, and whether it had no end in time; then it is interrupted until it has one.

    In this thread, the main one, which alone gets the stop button's signal.
    """
    state = {"over": False, "stuck": False}

    def interrupt() -> None:
        state["stuck"] = True
        while not state["over"]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5.0)

    timer = threading.Timer(HUNG_S, interrupt)
    timer.daemon = True
    timer.start()
    try:
        return call(), state["stuck"]
    except (DdlError, KeyboardInterrupt) as error:
        return error, state["stuck"]
    finally:
        state["over"] = True
        timer.cancel()


def _all_told(raised: object) -> str:
    """Return all that an error tells: of ranks that raised, what each did."""
    failures = [f"{failure.name}: {failure.message}" for failure in getattr(raised, "failures", ())]
    return "\n".join([str(raised or ""), *failures])


def fuzz(programs: int, seconds: float, seed: int, *, quick: bool = False, only: int | None = None) -> dict[str, Any]:
    """Run random programs; return what came of it.

    Args:
        programs: how many.
        seconds: no more begin after this time.
        seed: of all of them; each has its own randomness, made of this and its number.
        quick: none that may take until released ranks are given up.
        only: this one alone.
    """
    mark = secrets.token_hex(8)
    done = 0
    before: dict[str, float] = {}
    with folders(bare=True) as environment:
        environment |= {_MARK: mark}
        name = f"fuzz-{os.getpid()}"
        with jupyter_ddl.start(n=RANKS, name=name, gpus="none", env=environment) as session:
            session.run(SETUP, setup=True)
            result = Fuzz(session, seed)
            until_s = time.monotonic() + seconds
            for number in [only] if only is not None else range(programs):
                if time.monotonic() > until_s:
                    break
                cell = program(number, RANKS, random.Random(f"{seed} {number}"), quick=quick)
                began_s = time.monotonic()
                result.one(cell)
                done += 1
                print(f"  {cell}, {time.monotonic() - began_s:.1f} s", file=sys.stderr, flush=True)
                before = before or measure()
            after = measure()
        left = _left(mark)
    for what in ("descriptors", "threads"):
        if after[what] > before[what] + _SLACK[what]:
            result.problems.append(f"seed {seed}, {what}: {before[what]} and then {after[what]}")
    if left:
        result.problems.append(f"seed {seed}, processes that outlived the ranks: {left}")
    return {
        "name": "fuzz",
        "seed": seed,
        "programs": done,
        "holds": not result.problems and done > 0,
        "problems": result.problems,
        "told": dict(sorted(result.told.items())),
        "longest_s": round(result.longest_s, 1),
    }


# Ranks that are just being replaced hold some.
_SLACK = {"descriptors": 4, "threads": 2}


def _left(mark: str) -> list[str]:
    """Return what still runs of the ranks, or of what their cells started, some time after their end."""
    until_s = time.monotonic() + _SETTLED_S
    while True:
        left = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(_MARK) == mark:
                    left.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        if not left or time.monotonic() > until_s:
            return left
        time.sleep(0.2)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this program of the seed alone")
    parser.add_argument("--quick", action="store_true", help="none that may take until released ranks are given up")
    arguments = parser.parse_args()
    result = fuzz(arguments.programs, arguments.seconds, arguments.seed, quick=arguments.quick, only=arguments.only)
    print(json.dumps(result), flush=True)
    sys.exit(0 if result["holds"] else 1)


if __name__ == "__main__":
    main()
