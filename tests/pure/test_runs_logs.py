"""Logs read from disk and printed: of any size, hostile, half written, growing."""

import json
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from run_folders import make_run, own_session

from jupyter_ddl.cli import main
from jupyter_ddl.commands import logs
from jupyter_ddl.runs.logs import LONG_LINE_BYTES, RankLog

RUN = "2026-11-20T18-03-07-default-3f9c"
DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def folder():
    return make_run(RUN, outcome="finished", seconds=1.0)


def write_log(folder, rank, *parts):
    """Write a log of stretches of stdout (bytes) and stderr (bytes in a tuple)."""
    with (folder / f"rank-{rank}.log").open("wb") as log, (folder / f"rank-{rank}.stderr.jsonl").open("w") as spans:
        for part in parts:
            if isinstance(part, tuple):
                spans.write(f"{json.dumps([log.tell(), len(part[0])])}\n")
                log.write(part[0])
            else:
                log.write(part)
    return folder / f"rank-{rank}.log"


def printed(capsys, *arguments):
    assert main(["logs", *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert main(["logs", *arguments]) == 1
    return capsys.readouterr().err


def text_of(path, *, only_stderr=False):
    with RankLog(path, only_stderr=only_stderr) as log:
        return "".join(piece.text for piece in log.pieces())


def test_every_line_has_its_rank(folder, capsys):
    for rank in (0, 1):
        write_log(folder, rank, f"one\n\ntwo of {rank}\nno newline".encode())
    assert printed(capsys) == (
        "[0] one\n[0]\n[0] two of 0\n[0] no newline\n[1] one\n[1]\n[1] two of 1\n[1] no newline\n"
    )
    assert printed(capsys, RUN, "-r", "1", "--tail", "2") == "[1] two of 1\n[1] no newline\n"


def test_headings_are_as_wide_as_the_widest(capsys):
    folder = make_run(ranks=[0, 10], world_size=11, outcome="finished")
    for rank in (0, 10):
        write_log(folder, rank, b"x\n")
    assert printed(capsys) == "[0]  x\n[10] x\n"


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("text", ["", "a", "\n", "a\n", "a\nb", "a\nb\n", "\n\n\n", "ü\n\nüü\nend\n"])
def test_lines_are_found_from_the_end(tmp_path, monkeypatch, block, text):
    monkeypatch.setattr("jupyter_ddl.runs.logs.BLOCK_BYTES", block)
    path = tmp_path / "rank-0.log"
    path.write_text(text)
    lines = text.splitlines(keepends=True)
    with RankLog(path) as log:
        for count in range(len(lines) + 2):
            start = log.lines_before(log.size(), count)
            assert "".join(piece.text for piece in log.pieces(start)) == "".join(lines[max(0, len(lines) - count) :])
            assert log.count_lines(0, start) == text.encode()[:start].count(b"\n")
        assert log.whole_lines_end(0) == len(text.encode()) - len(text.encode().rpartition(b"\n")[2])


def test_stderr_alone(folder, capsys):
    path = write_log(folder, 0, b"out\n", (b"err 1\n",), b"half ", (b"err",), (b" 2\n",), b"line\n", (b"last",))
    assert text_of(path) == "out\nerr 1\nhalf err 2\nline\nlast"
    assert text_of(path, only_stderr=True) == "err 1\nerr 2\nlast"
    assert printed(capsys, "-r", "0", "--stderr", "--tail", "2") == "[0] err 2\n[0] last\n"


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_stretches_that_are_broken_are_left_out(folder, monkeypatch, block):
    monkeypatch.setattr("jupyter_ddl.runs.logs.BLOCK_BYTES", block)
    path = write_log(folder, 0, b"0123456789")
    spans = path.with_name("rank-0.stderr.jsonl")
    spans.write_text(
        '[1, 2]\n\n[2, 5]\n[1, 1]\n["a", 1]\n[-3, 1]\n[5, 0]\n[4]\nnull\n[4, 1]\n[99999999999999999999, 1]\n[8, 50]\n[9'
    )
    assert text_of(path, only_stderr=True) == "12489"
    spans.write_text("[50, 3]\n")
    assert text_of(path, only_stderr=True) == ""
    spans.unlink()
    assert text_of(path, only_stderr=True) == ""


def test_grep(folder, capsys):
    write_log(folder, 0, b"loss=1\nstep\nloss=22\nloss=x\n")
    write_log(folder, 1, b"", (b"loss=3\n",))
    assert printed(capsys, "--grep", r"loss=\d+$") == "[0] loss=1\n[0] loss=22\n[1] loss=3\n"
    assert printed(capsys, "--grep", r"loss=\d+$", "--tail", "1") == "[0] loss=22\n[1] loss=3\n"
    assert printed(capsys, "--grep", "loss", "--stderr") == "[1] loss=3\n"
    assert printed(capsys, "--grep", "nowhere") == ""


def test_what_options_refuse(folder, capsys):
    write_log(folder, 0, b"")
    grep = "--grep takes a regular expression. Received: '(': missing ), unterminated subpattern at position 0."
    assert f"{grep} Put a backslash before a character that is meant literally." in refused(capsys, "--grep", "(")
    tail = "--tail takes a number of at least 0. Received: --tail -1. Pass how many lines."
    assert tail in refused(capsys, "--tail", "-1")
    assert "A rank must be below the world size. Received: rank 2, world_size=2." in refused(capsys, "-r", "2")
    assert "'nothing', which is no run. %ddl runs lists them" in refused(capsys, "nothing")
    make_run("2026-11-20T18-03-08-default-0000", ranks=[1, 3], world_size=4, outcome="finished")
    rule = "Only the ranks that ran the cell have logs. Received: rank 0,2."
    assert f"{rule} 2026-11-20T18-03-08-default-0000 ran on 1,3." in refused(capsys, "-r", "0-3")


def test_a_rank_without_a_log_is_named(folder, capsys):
    write_log(folder, 1, b"here\n")
    assert main(["logs"]) == 0
    assert capsys.readouterr() == ("[1] here\n", "[0] no log\n")


def test_a_run_with_nothing_but_its_folder(capsys):
    make_run("2026-11-20T18-03-09-default-0000")
    assert printed(capsys, "0000") == ""


def test_hostile_text_is_only_text(folder, capsys):
    write_log(
        folder,
        0,
        b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x1b[H \x1bc\x07\x00 <script>alert(1)</script>\n",
        b"invalid \xff\xfe utf-8 \xc3\n",
        b"10%\r50%\r100%\n",
        b"\x9b31m \x7f \xe2\x80\xa8 end\n",
    )
    text = printed(capsys, "-r", "0")
    assert "<script>alert(1)</script>" in text
    assert "invalid \ufffd\ufffd utf-8 \ufffd" in text
    assert "[0] 100%" in text
    assert "50%" not in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", text)
    assert all(line.startswith("[0]") for line in text.splitlines())


def test_a_line_of_50_mb_is_bounded_in_print_and_whole_on_disk(folder, capsys):
    size = 50_000_000
    path = write_log(folder, 0, b"before\n", b"x" * size, b"\nafter\n")
    began_s = time.perf_counter()
    lines = printed(capsys, "-r", "0").splitlines()
    seconds = time.perf_counter() - began_s
    assert lines == ["[0] before", f"[0] {'x' * 10_000}… (+49,990,000 characters)", "[0] after"]
    assert path.stat().st_size == size + 14
    assert seconds < DEADLINE_S
    assert printed(capsys, "-r", "0", "--tail", "1") == "[0] after\n"
    assert printed(capsys, "-r", "0", "--tail", "2", "--grep", "after") == "[0] after\n"


@pytest.mark.parametrize("extra", [-1, 0, 1, 2, 500_000, 1_000_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nafter\n"])
def test_a_line_about_as_long_as_is_read_at_once(folder, capsys, extra, end):
    length = LONG_LINE_BYTES + extra
    write_log(folder, 0, b"x" * length + end)
    expected = [f"[0] {'x' * 10_000}… (+{length - 10_000:,} characters)", "[0] after"]
    assert printed(capsys, "-r", "0").splitlines() == expected[: 1 + (b"after" in end)]


def test_of_a_long_progress_bar_its_end_is_shown(folder, capsys):
    bar = b"".join(b"\rstep %d" % step for step in range(400_000))
    write_log(folder, 0, bar + b"\r\nafter\n")
    assert len(bar) > 4 * LONG_LINE_BYTES
    assert printed(capsys, "-r", "0") == "[0] step 399999\n[0] after\n"


def test_a_character_cut_by_a_block_is_whole(folder, capsys, monkeypatch):
    monkeypatch.setattr("jupyter_ddl.runs.logs.BLOCK_BYTES", 3)
    write_log(folder, 0, "grüße 日本\n🎉\n".encode())
    assert printed(capsys, "-r", "0") == "[0] grüße 日本\n[0] 🎉\n"


PAGES = """
import sys, time, tracemalloc
from pathlib import Path
from jupyter_ddl.runs.logs import RankLog

tracemalloc.start()
began_s = time.perf_counter()
with RankLog(Path(sys.argv[1])) as log:
    end = log.size()
    page = log.lines_before(end, 100)
    earlier = log.lines_before(page, 100)
    last = "".join(piece.text for piece in log.pieces(page, end))
    first = next(log.pieces())
print(end, last.count("\\n"), page - earlier, first.text[:5], last[-5:].strip())
print(time.perf_counter() - began_s, tracemalloc.get_traced_memory()[1] / 2**20, file=sys.stderr)
"""


def test_a_log_of_2_gb_is_paged_from_its_end(folder):
    path = folder / "rank-0.log"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(2 << 30)
        file.seek(2 << 30)
        file.write(b"".join(b"\nline %6d" % line for line in range(300)) + b"\nlast\n")
    assert path.stat().st_blocks * 512 < 1 << 20
    child = subprocess.run([sys.executable, "-c", PAGES, path], capture_output=True, text=True, check=True, timeout=60)
    assert child.stdout.split() == [str((2 << 30) + 300 * 12 + 6), "100", "1200", "first", "last"]
    seconds, peak_mib = map(float, child.stderr.split())
    print(f"{seconds:.3f} s, {peak_mib:.1f} MiB")
    assert seconds < DEADLINE_S
    assert peak_mib < 10


PRINT = """
import sys, tracemalloc
from jupyter_ddl.cli import main

tracemalloc.start()
main(["logs", "-r", "0"])
print(tracemalloc.get_traced_memory()[1] / 2**20, file=sys.stderr)
"""


def test_a_huge_line_of_nuls_is_printed_in_little_memory(folder):
    with (folder / "rank-0.log").open("wb") as file:
        file.write(b"first\n")
        file.truncate(1 << 28)
    child = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True, timeout=120)
    assert child.stdout.startswith("[0] first\n[0]")
    assert child.stdout.endswith("characters)\n")
    print(f"{float(child.stderr):.1f} MiB")
    assert float(child.stderr) < 30


def test_output_to_a_closed_pipe_ends_quietly(folder):
    write_log(folder, 0, b"line of a log\n" * 1_000_000)
    command = [sys.executable, "-m", "jupyter_ddl.cli", "logs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"[0] line of a log\n"
        child.stdout.close()
        assert child.wait(60) == 141
        assert child.stderr.read() == b""


def test_a_terminal_of_another_encoding_gets_what_it_can_show(folder):
    write_log(folder, 0, "grüße 日本\n".encode())
    command = [sys.executable, "-m", "jupyter_ddl.cli", "logs", "-r", "0"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    child = subprocess.run(command, capture_output=True, env=environment, check=True, timeout=60)
    assert child.stdout.decode("latin-1") == "[0] grüße \\u65e5\\u672c\n"


@pytest.fixture
def followed_often(monkeypatch):
    monkeypatch.setattr(logs, "_FOLLOW_S", 0.02)


def taken(capsys, text):
    """Return what is printed, once it is as long as a text."""
    found, until_s = "", time.monotonic() + DEADLINE_S
    while len(found) < len(text) and time.monotonic() < until_s:
        time.sleep(0.01)
        found += capsys.readouterr().out
    return found


def test_a_log_is_followed_to_its_end(followed_often, capsys):
    folder = make_run(RUN, session=own_session())
    log = folder / "rank-0.log"
    seen = []

    def train():
        for part, whole in ((b"zero\none\ntw", "[0] zero\n[0] one\n"), (b"o\n", "[0] two\n"), (b"last", "")):
            with log.open("ab") as file:
                file.write(part)
            seen.append((taken(capsys, whole), whole))
        # Nothing of a line that has no end yet.
        time.sleep(0.2)
        seen.append((capsys.readouterr().out, ""))
        # What is written just before the end is printed, and a rank that begins late is taken up.
        (folder / "rank-1.log").write_bytes(b"late\n")
        make_outcome(folder)

    thread = threading.Thread(target=train)
    thread.start()
    assert main(["logs", "-f"]) == 0
    thread.join()
    assert len(seen) == 4
    assert all(one == whole for one, whole in seen)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] last", "[1] late"]


def test_stderr_is_followed_though_it_is_known_as_such_only_afterwards(followed_often, capsys):
    folder = make_run(RUN, session=own_session())
    log, spans = folder / "rank-0.log", folder / "rank-0.stderr.jsonl"
    log.write_bytes(b"out\n")
    seen = []

    def train():
        for number in range(2):
            with log.open("ab") as file:
                file.write(b"err %d\nout\n" % number)
            time.sleep(0.1)
            with spans.open("a") as file:
                file.write(f"[{4 + 10 * number}, 6]\n")
            seen.append(taken(capsys, f"[0] err {number}\n"))
        make_outcome(folder)

    thread = threading.Thread(target=train)
    thread.start()
    assert main(["logs", "-f", "--stderr"]) == 0
    thread.join()
    assert (seen, capsys.readouterr().out) == (["[0] err 0\n", "[0] err 1\n"], "")


def make_outcome(folder):
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**content, "outcome": "finished"}))


def test_a_run_that_is_over_is_not_waited_for(folder, capsys):
    write_log(folder, 0, b"a\nb\n", (b"c\n",), b"d")
    assert printed(capsys, "-f", "--tail", "1") == "[0] d\n"
    assert printed(capsys, "-f", "--stderr") == "[0] c\n"
    assert printed(capsys, "-f", "--grep", "[ab]") == "[0] a\n[0] b\n"


def test_ctrl_c_ends_following_quietly():
    folder = make_run(RUN, session=own_session())
    write_log(folder, 0, b"hello\n")
    command = [sys.executable, "-m", "jupyter_ddl.cli", "logs", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "[0] hello\n"
        time.sleep(0.3)
        child.send_signal(2)
        assert child.wait(30) == 130
        assert (child.stdout.read(), child.stderr.read()) == ("", "")
