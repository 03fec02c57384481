"""An interrupt from the panel, `%ddl interrupt` or a second notebook has the stop button's patience, and its end."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import kernel

from jupyter_ddl.errors import ClusterLost, RunInterrupted
from jupyter_ddl.protocol.events import OutputChunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels import Kernel

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import Run

pytestmark = pytest.mark.mpi

IGNORES = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.1)"
# With Python's lock held nothing of the rank answers, not even that it was released.
HOLDS = "import ctypes\nctypes.PyDLL(None).poll(None, 0, 600_000)"


class Shown:
    """What is shown under a cell, as a view takes it."""

    def __init__(self) -> None:
        self.text = ""

    def handle(self, event: object) -> None:
        if isinstance(event, OutputChunk):
            self.text += event.text

    def tick(self, now_s: float) -> None:
        pass

    def flush(self) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Iterator[Kernel]:
    with kernel() as second:
        second.do("import jupyter_ddl")
        yield second


# In the time that users wait; tests/pure/test_rebuild_simulated.py has it by a simulated clock.
@pytest.mark.slow
@pytest.mark.parametrize(("way", "code"), [("panel", IGNORES), ("second", HOLDS)])
def test_ranks_that_ignore_it_are_named_and_replaced(bare: Session, other: Kernel, way: str, code: str) -> None:
    bare.run("x = 1")
    shown, began_s = Shown(), time.monotonic()
    if way == "panel":
        by = "the panel"
        threading.Timer(1.0, bare.interrupt, (by,)).start()
    else:
        by = "a second notebook"
        other.do("session = jupyter_ddl.attach('bare-2')")
        other.send(f"import time; time.sleep(1.0); session.interrupt({by!r})")
    with pytest.raises(ClusterLost, match=rf"the cell was interrupted by {by}, and ranks 0-1 did not answer the rel"):
        bare.run(code, view=lambda _: shown)
    assert time.monotonic() - began_s < 90.0
    assert "jupyter_ddl: rank 0 has not answered its release for 5 s: " in shown.text
    assert "jupyter_ddl: ranks 0-1 did not answer in time: all ranks are ended" in shown.text
    if way == "second":
        other.answer()
    assert bare.run("rank + 1").ranks[1].value == "2"


def test_a_second_notebooks_interrupt_ends_what_answers_and_spares_the_next_cell(bare: Session, other: Kernel) -> None:
    other.do("session = jupyter_ddl.attach('bare-2')")
    for _ in range(3):
        other.send("import time; time.sleep(0.7); session.interrupt('a second notebook')")
        with pytest.raises(RunInterrupted, match="was interrupted by a second notebook after"):
            bare.run("import time\nwhile True: time.sleep(0.1)")
        assert bare.run("import time; time.sleep(0.3); rank").ranks[1].value == "1"
        other.answer()


@pytest.mark.parametrize("hangs", ["time.sleep(600)", "ctypes.PyDLL(None).poll(None, 0, 600_000)"], ids=["sleep", "C"])
def test_a_second_notebooks_interrupt_ends_a_pull_too(bare: Session, other: Kernel, hangs: str) -> None:
    bare.run(f"class Odd:\n    def __reduce__(self):\n        import ctypes, time; {hangs}\nodd = Odd()")
    other.do("session = jupyter_ddl.attach('bare-2')")
    other.send("import time; time.sleep(1.0); session.interrupt('a second notebook')")
    with pytest.raises(RunInterrupted, match="Moving values was interrupted by a second notebook after"):
        bare.pull("odd")
    other.answer()
    if "sleep" in hangs:
        assert bare.pull("rank") == {0: 0, 1: 1}
    else:
        bare.restart()


@pytest.mark.slow
def test_a_loss_whose_checkpoints_cannot_be_read_ends_the_cell(
    bare: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path == tmp_path:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stock(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    threading.Timer(1.0, os.kill, (bare.ranks[1].pid, signal.SIGKILL)).start()
    with pytest.raises(ClusterLost, match=r"(?s)rank 1 on .*2 new ranks are being started"):
        bare.run("import time; time.sleep(600)", checkpoint=tmp_path)
    told = bare.wait_rebuilt()
    assert told is not None
    assert told.endswith(f"\nThe checkpoints in {tmp_path} cannot be read: Stale file handle.")
    assert bare.run("rank").ranks[1].value == "1"


def test_a_view_that_raises_on_real_ranks_costs_the_cell_nothing(bare: Session) -> None:
    class Broken(Shown):
        def handle(self, event: object) -> None:
            raise TypeError("unsupported operand type(s) for +: 'float' and 'str'")

    def view(_run: Run) -> Broken:
        return Broken()

    result = bare.run("import time\nfor i in range(5): print(i); time.sleep(0.1)\nrank", view=view)
    assert result.outcome == "finished"
    assert result.ranks[1].value == "1"
    assert result.ranks[0].stdout == "0\n1\n2\n3\n4\n"
