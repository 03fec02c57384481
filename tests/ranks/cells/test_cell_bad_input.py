"""What breaks a rule: one line with the rule, what was received and the remedy, and no traceback of ours."""

import re

import pytest

pytestmark = pytest.mark.mpi

DDL_START_USAGE = "%ddl start [-h] [-n N]"
CELL_USAGE = "usage: %%distributed [-h] [-r RANKS] [--async] [--tune [KINDS]] [--timeout S]"


def refused(cell):
    assert cell.error is not None, cell.text
    assert "Traceback" not in cell.told
    assert ".py" not in cell.told
    assert "\n" not in cell.told
    assert cell.lines == []
    return cell.told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "%ddl start -n 0",
            (
                "InvalidInput: n must be a whole number of at least 1. Received: n=0. Pass n=1 or more, or leave it out "  # noqa: E501
                "to get one rank per GPU."
            ),
        ),
        (
            "%ddl start -n two",
            "InvalidInput: %ddl start takes what its usage says. Received: argument -n: invalid int value: 'two'.",
        ),
        (
            "%ddl bogus",
            "InvalidInput: %ddl takes what its usage says. Received: argument COMMAND: invalid choice: 'bogus'",
        ),
        (
            "%ddl start --bogus",
            "InvalidInput: %ddl start takes what its usage says. Received: unrecognized arguments: --bogus. usage: "
            + DDL_START_USAGE,
        ),
        (
            "%ddl start --name 'open",
            (
                "InvalidInput: Quotes must be closed. Received: start --name 'open. Write 'a b' or \"a b\" for a value "
                "with a space."
            ),
        ),
        (
            "%ddl start --env NOVALUE",
            "InvalidInput: --env takes a name and a value. Received: NOVALUE. Write --env NAME=VALUE.",
        ),
        (
            "%ddl push undefined_name",
            "InvalidInput: A name to push must be defined in this notebook. Received: undefined_name. Define it first.",
        ),
        (
            "%ddl push",
            "InvalidInput: %ddl push takes what its usage says. Received: the following arguments are required: NAME. ",
        ),
        ("%ddl attach nowhere", "NoCluster: "),
        (
            "%%distributed -r 7\n1",
            "InvalidInput: A rank must be below the world size. Received: rank 7, world_size=2. Ranks here are 0-1.",
        ),
        (
            "%%distributed -r 1-0\n1",
            "InvalidInput: A range of ranks must rise. Received: '1-0'. Write 0-1.",
        ),
        (
            "%%distributed -r first\n1",
            (
                "InvalidInput: Ranks must be numbers and ranges, separated by commas. Received: 'first'. Write them like "  # noqa: E501
                "0,2-3."
            ),
        ),
        (
            "%%distributed --bogus\n1",
            "InvalidInput: %%distributed takes what its usage says. Received: unrecognized arguments: --bogus. "
            + CELL_USAGE,
        ),
        (
            "%%distributed --timeout soon\n1",
            "InvalidInput: %%distributed takes what its usage says. Received: argument --timeout: invalid float value: "
            "'soon'. " + CELL_USAGE,
        ),
        (
            "%%distributed --timeout nan\n1",
            "InvalidInput: A timeout must be more than 0 seconds. Received: --timeout nan. Leave it out for none.",
        ),
    ],
)
def test_bad_input(notebook, code, told):
    assert refused(notebook.execute(code)).startswith(told)


def test_pull_of_an_undefined_name(notebook):
    cell = notebook.execute("%ddl pull undefined_name")
    assert cell.error["ename"] == "TransferFailed"
    assert "undefined_name" in cell.told
    assert "Traceback" not in cell.told


def test_gpus_that_do_not_exist(notebook):
    told = refused(notebook.execute("%ddl start --gpus 97,98 --name other"))
    assert told.startswith("InvalidInput: ")
    assert "Received: " in told
    assert "97" in told
    # The ranks that run are none the worse.
    assert notebook.run("1").lines == ["[0-1] 1"]


def test_a_traceback_names_the_line_and_the_prompt_of_the_notebook(notebook):
    prompt = int(notebook.execute("print(get_ipython().execution_count)").lines[0]) + 1
    told = notebook.execute("\n%%distributed\nx = 1\nraise ValueError('here')").told
    assert f"Cell In[{prompt}], line 4" in re.sub(r"\x1b\[[0-9;]*m", "", told)


@pytest.mark.parametrize("code", ["%%distributed\n1", "%ddl status", "%ddl stop", "x = 1\n%ddl push x", "%ddl restart"])
def test_no_cluster(fresh, code):
    assert refused(fresh.execute(code)) == (
        "NoCluster: Ranks must run before a cell can go to them. Received: no cluster. Start them with %ddl start, or "
        "with Start ranks in JupyterLab's Distributed panel."
    )


@pytest.fixture(scope="module")
def fresh():
    from ranks.kernel import Kernel

    kernel = Kernel()
    yield kernel
    kernel.stop()


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("%ddl -h", "start,"),
        ("%ddl", "usage: %ddl [-h] COMMAND ..."),
        ("%ddl start -h", "--oversubscribe"),
        ("%%distributed -h\n1", "On each rank the names rank, local_rank and world_size are set."),
    ],
)
def test_help(fresh, code, shown):
    cell = fresh.execute(code)
    assert cell.error is None
    assert "usage: %" in cell.text
    assert shown.rstrip(",") in cell.text


def test_status(notebook):
    status = notebook.execute("%ddl status")
    assert status.lines[0] == "notebook-2: 2 ranks, idle"
    assert status.lines[1].split() == ["rank", "host", "pid", "device", "threads"]
    assert [line.split()[0] for line in status.lines[2:]] == ["0", "1"]


def test_push_and_pull(notebook):
    assert notebook.execute("x = 5\n%ddl push x").error is None
    assert notebook.run("y = x + rank").error is None
    notebook.execute("%ddl pull y")
    assert notebook.execute("y").text == "{0: 5, 1: 6}"
    notebook.execute("%ddl pull y -r 1")
    assert notebook.execute("y").text == "6"


def test_a_cell_on_some_ranks(notebook):
    assert notebook.run("rank", "-r 1").lines == ["[1] 1"]


def test_magics_do_not_expand_names(notebook):
    assert notebook.execute("rank = 'expanded'").error is None
    assert notebook.run("print('{rank} $rank')").lines == ["[0-1] {rank} $rank"]
