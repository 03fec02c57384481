"""Tab in a cell that runs on ranks offers rank 0's names, and an inspection tells of them, in any front end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ranks.kernel import Kernel

pytestmark = pytest.mark.mpi


@pytest.fixture
def named(notebook: Kernel) -> Kernel:
    """A notebook with a name here, and other ones on the ranks."""
    # Jedi's first look takes IPython 4 s, and is not what this is about.
    assert notebook.execute("%config IPCompleter.use_jedi = False\nzebra_here = 1").error is None
    assert notebook.run("zebra_there = {'stripes': 5}\nif rank == 1: zebra_of_rank_1 = 2").error is None
    return notebook


@pytest.mark.parametrize(
    ("code", "matches"),
    [
        ("%%distributed\nzeb", ["zebra_there"]),
        ("\n%%distributed -r 0\nx = 1\n\nprint(zeb", ["print(zebra_there"]),
        ("%%distributed\nzebra_there.setd", ["zebra_there.setdefault"]),
        ("%%distributed\nzebra_there['st", ["zebra_there['stripes"]),
        ("zeb", ["zebra_here"]),
        ("%%timeit\nzeb", ["zebra_here"]),
    ],
)
def test_names_are_those_of_where_the_cell_runs(named: Kernel, code: str, matches: list[str]) -> None:
    assert named.complete(code) == matches


def test_a_cell_without_a_magic_is_completed_where_it_runs(named: Kernel) -> None:
    assert named.execute("%ddl auto on").error is None
    assert named.complete("zeb") == ["zebra_there"]
    assert named.complete("%%local\nzeb") == ["zebra_here"]
    assert named.complete("%timeit zeb") == ["%timeit zebra_here"]
    assert named.execute("%ddl auto off").error is None
    assert named.complete("zeb") == ["zebra_here"]


def test_also_while_rank_0_is_busy(named: Kernel) -> None:
    cell = named.run("zebra_busy = 1\nprint('at it', flush=True)\nwhile True: pass", "--async")
    cell.wait_for("at it")
    assert named.complete("%%distributed\nzeb") == ["zebra_busy", "zebra_there"]
    assert named.execute("%ddl interrupt").error is None


def test_the_magics_own_line_is_the_kernels(named: Kernel) -> None:
    assert "%%distributed" in named.complete("%%distr")


def test_an_inspection_tells_of_the_name_where_the_cell_runs(named: Kernel) -> None:
    assert named.execute("def known_of():\n    'Known here.'").error is None
    assert named.run("def known_of(rank_of_it):\n    'Known on the ranks.'").error is None
    told = named.inspect("%%distributed\nknown_of")
    assert "Known on the ranks." in told
    assert "rank_of_it" in told
    assert "Known here." in named.inspect("known_of")
    assert named.inspect("%%distributed\nknown_nowhere") == ""
    registered = (
        "from jupyter_ddl.host import patching\nprint([(one.name, one.layer.name) for one in patching.patches()])"
    )
    assert named.execute(registered).text.strip() == "[('do_inspect', 'KERNEL')]"
    assert named.execute("assert not patching.undo_all()").error is None
    assert named.inspect("%%distributed\nknown_of") != told
