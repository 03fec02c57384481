"""The table of ranks, the text of failures, and which view fits."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.events import RankFailed
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.views.cell import CellView
from jupyter_ddl.views.failure import render_failure
from jupyter_ddl.views.publish import JupyterPublisher
from jupyter_ddl.views.selection import current_publisher, for_environment
from jupyter_ddl.views.table import status_table
from jupyter_ddl.views.terminal import TerminalView


def failed(rank, name="ValueError", message="bad", host="host-a", at_s=0.0):
    traceback = ("\x1b[31m" + name + "\x1b[39m", f"  line of rank {rank}", f"{name}: {message}")
    return RankFailed("r", rank, host, name, message, traceback, released=False, at_s=at_s)


def test_status_table():
    ranks = [
        RankReady(10, 11, 2, "node-b", 99, "GPU 2 (NVIDIA H200)", 16),
        RankReady(0, 11, 0, "a", 12345, "CPU", 4),
    ]
    assert status_table(ranks).split("\n") == [
        "rank  host      pid  device               threads",
        "   0  a       12345  CPU                        4",
        "  10  node-b     99  GPU 2 (NVIDIA H200)       16",
    ]


def test_one_failure_is_headed_and_the_others_are_told_in_a_line():
    assert render_failure(RankError([failed(1)], [0, 2, 3], 4)).split("\n") == [
        "Rank 1 of 4 on host-a",
        "\x1b[31mValueError\x1b[39m",
        "  line of rank 1",
        "ValueError: bad",
        "",
        "Ranks 0, 2-3 aborted because rank 1 raised",
    ]


def test_the_same_error_on_many_ranks_is_told_once():
    failures = [failed(rank, message=f"<object at 0x7f{rank}>") for rank in (2, 0, 1)]
    text = render_failure(RankError(failures, [3], 4))
    assert text.startswith("Ranks 0-2 of 4 on host-a\n")
    assert text.count("  line of rank") == 1
    assert "  line of rank 2" in text
    assert text.endswith("\n\nRank 3 aborted because ranks 0-2 raised")


def test_different_errors_stand_first_cause_first():
    failures = [failed(1, "OSError", "disk"), failed(0), failed(3, "OSError", "disk", host="host-b")]
    parts = render_failure(RankError(failures, [], 4)).split("\n\n")
    assert [part.split("\n")[0] for part in parts] == ["Ranks 1, 3 of 4 on host-a, host-b", "Rank 0 of 4 on host-a"]


def test_many_different_errors_are_a_line_each_after_the_first():
    failures = [failed(rank, message=f"bad {rank}", host=f"host-{rank}") for rank in range(5)]
    parts = render_failure(RankError(failures, [], 5)).split("\n\n")
    assert parts[3:] == ["Rank 3 of 5 on host-3: ValueError: bad 3", "Rank 4 of 5 on host-4: ValueError: bad 4"]


def test_many_hosts_are_counted():
    failures = [failed(rank, host=f"host-{rank}") for rank in range(5)]
    heading = render_failure(RankError(failures, [], 5)).split("\n")[0]
    assert heading == "Ranks 0-4 of 5 on host-0, host-1, host-2 and 2 more"


def test_a_failure_without_traceback_still_says_what_was_raised():
    failure = RankFailed("r", 0, "h", "MemoryError", "", (), released=False, at_s=0.0)
    assert render_failure(RankError([failure], [], 1)) == "Rank 0 of 1 on h\nMemoryError: "


class Shell:
    """As much of a kernel's shell as a publisher needs."""

    def __init__(self, *, knows_threads):
        self.kernel = object()
        self.sent = []
        self.parents = []
        self.display_pub = SimpleNamespace(publish=self.publish)
        if knows_threads:
            self.display_pub.set_thread_parent = lambda parent: self.parents.append(parent) or "token"
            self.display_pub.reset_thread_parent = self.parents.append

    def get_parent(self):
        return {"header": {"msg_id": "the cell"}}

    def publish(self, data, metadata, *, transient, update):
        self.sent.append((data, metadata, transient, update))


def test_the_publisher_stays_under_its_cell():
    shell = Shell(knows_threads=True)
    publisher = JupyterPublisher(shell)
    publisher.publish({"text/plain": "a"}, {}, "1")
    publisher.update({"text/plain": "b"}, {"m": 1}, "1")
    assert shell.sent == [
        ({"text/plain": "a"}, {}, {"display_id": "1"}, False),
        ({"text/plain": "b"}, {"m": 1}, {"display_id": "1"}, True),
    ]
    assert shell.parents == [shell.get_parent(), "token"] * 2


def test_the_publisher_works_where_threads_have_no_parent():
    shell = Shell(knows_threads=False)
    JupyterPublisher(shell).publish({}, {}, "1")
    assert len(shell.sent) == 1


@pytest.mark.parametrize(
    ("shell", "view"),
    [(Shell(knows_threads=True), CellView), (SimpleNamespace(), TerminalView), (None, TerminalView)],
)
def test_the_view_fits_the_environment(monkeypatch, shell, view):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert type(for_environment(current_publisher(), (0, 1), None)) is view


def test_views_import_nothing_heavy():
    code = (
        "import sys, jupyter_ddl.views.cell, jupyter_ddl.views.terminal, jupyter_ddl.views.failure;"
        "from jupyter_ddl.views.selection import current_publisher, for_environment;"
        "for_environment(current_publisher(), (0,), None);"
        "print([name for name in ('IPython', 'ipykernel', 'numpy', 'ipyparallel') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"
