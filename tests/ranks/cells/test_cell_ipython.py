"""IPython's semantics on every rank, at each world size."""

import nbformat
import pytest

from jupyter_ddl.errors import RankError, RunTimedOut

pytestmark = pytest.mark.mpi


def values(session, code):
    return [result.value for result in session.run(code).ranks.values()]


def printed(session, code):
    return [result.stdout.replace("\r\n", "\n") for result in session.run(code).ranks.values()]


def raised(session, code):
    with pytest.raises(RankError) as caught:
        session.run(code)
    return caught.value


def on_all(session, value):
    return [value] * session.world_size


def test_each_rank_knows_its_place(session):
    places = values(session, "rank, local_rank, world_size")
    assert places == [f"({rank}, {rank}, {session.world_size})" for rank in range(session.world_size)]


def test_variables_persist_between_cells(session):
    session.run("kept = rank * 10")
    assert values(session, "kept + 1") == [str(rank * 10 + 1) for rank in range(session.world_size)]


def test_the_last_value_shows_and_is_remembered(session):
    assert values(session, "6 * 7") == on_all(session, "42")
    assert values(session, "_") == on_all(session, "42")
    assert values(session, "Out[max(Out)], _") == on_all(session, "(42, 42)")


def test_a_semicolon_and_a_statement_show_nothing(session):
    assert values(session, "6 * 7;") == on_all(session, None)
    assert values(session, "x = 1") == on_all(session, None)
    assert values(session, "") == on_all(session, None)
    assert values(session, "# nothing") == on_all(session, None)


def test_await(session):
    assert values(session, "import asyncio\nawait asyncio.sleep(0.01)\n'awaited'") == on_all(session, "'awaited'")
    assert values(session, "await asyncio.gather(*(asyncio.sleep(0.01, k) for k in (1, 2)))") == on_all(
        session, "[1, 2]"
    )


def test_an_input_transformer_is_called_once_a_cell(session):
    note = "calls = []\ndef note(lines):\n    calls.append(lines)\n    return lines\n"
    session.run(note + "get_ipython().input_transformers_post.append(note)")
    assert values(session, "len(calls)") == on_all(session, "1")
    session.run("import asyncio\nawait asyncio.sleep(0)")
    assert values(session, "len(calls)") == on_all(session, "3")
    session.run("get_ipython().input_transformers_post.remove(note)")


def test_a_task_lives_on_between_cells(session):
    session.run("import asyncio\ntask = asyncio.ensure_future(asyncio.sleep(0.01, 'done'))")
    assert values(session, "await task") == on_all(session, "'done'")


def test_line_and_cell_magics(session):
    assert all("Wall time" in text for text in printed(session, "%time sum(range(10))"))
    assert all("per loop" in text for text in printed(session, "%%timeit -n1 -r1\nsum(range(10))"))
    assert values(session, "%%capture text\nprint('caught')") == on_all(session, None)
    assert values(session, "text.stdout") == on_all(session, r"'caught\n'")
    # What was captured before an error is there.
    assert "ValueError: later" in str(raised(session, "%%capture text\nprint('before')\nraise ValueError('later')"))
    assert values(session, "text.stdout") == on_all(session, r"'before\n'")
    assert values(session, "1 + 1") == on_all(session, "2")


def test_shell_commands(session):
    assert printed(session, "!echo from the shell $((40 + 2))") == on_all(session, "from the shell 42\n")
    assert values(session, "lines = !echo kept\nlines") == on_all(session, "['kept']")
    assert printed(session, "%%bash\necho $((40 + 2))") == on_all(session, "42\n")


def test_names_in_shell_commands(session):
    assert printed(session, "!echo $rank {rank + 1}") == [f"{k} {k + 1}\n" for k in range(session.world_size)]


def test_output_of_functions_and_classes(session):
    session.run("class Box:\n    def __repr__(self):\n        return f'Box {rank}'\ndef box():\n    return Box()")
    assert values(session, "box()") == [f"Box {rank}" for rank in range(session.world_size)]


def test_a_syntax_error_is_a_ranks_error(session):
    error = raised(session, "1 +")
    assert error.failures[0].name == "SyntaxError"
    assert len(error.failures) == session.world_size
    assert "SyntaxError" in "\n".join(error.failures[0].traceback)


def test_input_is_an_error_and_not_a_hang(session):
    error = raised(session, "input('name? ')")
    assert error.failures[0].message == (
        "A rank cannot ask for input: it has no terminal. Received: input(). Set the value in the notebook, and "
        "send it with %ddl push."
    )


@pytest.mark.parametrize("code", ["import getpass; getpass.getpass()", "import sys; sys.stdin.read(1) or input()"])
def test_other_ways_to_ask_end_too(session, code):
    assert raised(session, code).failures


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "raise SystemExit", "import sys; sys.exit('bye')"])
def test_an_exit_is_an_error_and_the_rank_lives(session, code):
    session.run("kept = rank")
    assert raised(session, code).failures[0].name == "SystemExit"
    assert values(session, "kept") == [str(rank) for rank in range(session.world_size)]


@pytest.mark.parametrize("code", ["exit()", "exit", "quit()", "get_ipython().ask_exit()"])
def test_exit_does_not_end_the_rank(session, code):
    session.run("kept = rank")
    error = raised(session, code)
    assert error.failures[0].message == (
        "A cell must not end its rank. Received: exit. Raise an error to leave the cell; %ddl stop ends the ranks."
    )
    session.run("import time; time.sleep(0.3)")
    assert values(session, "kept") == [str(rank) for rank in range(session.world_size)]


@pytest.mark.slow
def test_a_rank_of_some(ranks):
    result = ranks(4).run("rank", ranks=[1, 3])
    assert {rank: each.value for rank, each in result.ranks.items()} == {1: "1", 3: "3"}


@pytest.mark.parametrize(
    "how",
    [
        *("%run {path}", "%run -i {path}", "%run -m {module}", "%run {notebook}"),
        *("%%time\n{code}", "%%capture\n{code}"),
    ],
)
def test_a_rank_whose_program_raises_ends_the_cell_on_all(session, tmp_path, how):
    if session.world_size == 1:
        pytest.skip("no rank waits for another")
    code = "import os, time\nif os.environ['RANK'] == '1': raise ValueError('in the program')\ntime.sleep(60)"
    path, notebook = tmp_path / "program_that_raises.py", tmp_path / "program.ipynb"
    path.write_text(code)
    notebook.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])))
    session.run(f"import os, sys\nsys.path.insert(0, {str(tmp_path)!r})")
    try:
        given = how.format(path=path, module=path.stem, notebook=notebook, code=code)
        assert "Rank 1 of" in str(raised(session, given))
        assert "in the program" in str(raised(session, given))
    finally:
        session.run("del sys.path[0]")


def test_an_interrupt_ends_a_program_of_run(session, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import time\ntime.sleep(60)")
    with pytest.raises(RunTimedOut):
        session.run(f"%run {path}", timeout_s=0.5)


def test_a_program_of_run_that_exits_well_ends_well(session, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import sys\nfound = 7\nsys.exit(0)")
    session.run(f"%run -i {path}")
    assert values(session, "found") == on_all(session, "7")
    path.write_text("import sys\nsys.exit(3)")
    session.run(f"%run -e {path}")
    assert "SystemExit" in str(raised(session, f"%run {path}"))


def test_a_program_of_run_spawns_processes_each_time(session, tmp_path):
    """IPython's second %run of a program leaves `__main__` without `__spec__`, which multiprocessing asks for."""
    path = tmp_path / "program_that_spawns.py"
    path.write_text(
        "import multiprocessing\ndef work():\n    print('spawned')\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start()\n    process.join()\n    ended = process.exitcode\n"
    )
    for _ in range(2):
        session.run(f"ended = None\n%run {path}")
        assert values(session, "ended") == on_all(session, "0")
