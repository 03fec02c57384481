import io

from jupyter_ddl.protocol.events import OutputChunk, OutputCleared, RankFinished, RichOutput
from jupyter_ddl.views.terminal import TerminalView


class Terminal(io.StringIO):
    def isatty(self):
        return True


def out(rank, text, stream="stdout"):
    return OutputChunk("r", rank, stream, text)


def printed(view, stream, now_s, *events):
    """Return what the events and a tick add to the stream."""
    before = len(stream.getvalue())
    for event in events:
        view.handle(event)
    view.tick(now_s)
    return stream.getvalue()[before:]


def test_a_line_is_printed_once_all_ranks_said_it():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    assert printed(view, stream, 0.0, out(0, "a\nb\n")) == ""
    assert printed(view, stream, 0.1, out(1, "a\n")) == "[0-1] a\n"
    assert printed(view, stream, 0.2, out(1, "b\n")) == ""
    assert printed(view, stream, 0.36) == "[0-1] b\n"


def test_a_line_that_the_others_went_past_is_printed():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    assert printed(view, stream, 0.0, out(0, "a\nb\n"), out(1, "b\n")) == "[0]   a\n[0-1] b\n"


def test_a_line_waits_for_slower_ranks_only_a_short_time():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    assert printed(view, stream, 5.0, out(0, "a\n")) == ""
    assert printed(view, stream, 5.2) == ""
    assert printed(view, stream, 5.51) == "[0]   a\n"
    assert printed(view, stream, 5.6, out(1, "a\n")) == ""
    assert printed(view, stream, 5.8) == ""
    assert printed(view, stream, 6.2) == "[1]   a\n"


def test_nothing_waits_for_a_rank_that_has_finished():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    assert printed(view, stream, 0.0, RankFinished("r", 1, 0.0), out(0, "a\n")) == "[0]   a\n"


def test_flush_prints_all_and_ends_unfinished_lines():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    view.handle(out(0, "a\npart"))
    view.flush()
    assert stream.getvalue() == "[0]   a\n[0]   part\n"
    view.flush()
    assert stream.getvalue() == "[0]   a\n[0]   part\n"


def test_standard_error_goes_to_standard_error():
    stream, errors = io.StringIO(), io.StringIO()
    view = TerminalView(range(1), stream, errors)
    view.handle(out(0, "a\n"))
    view.handle(out(0, "b\n", "stderr"))
    view.flush()
    assert (stream.getvalue(), errors.getvalue()) == ("[0] a\n", "[0] b\n")


def test_without_a_terminal_progress_bars_print_only_their_end():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    for step in range(10):
        assert printed(view, stream, step, out(0, f"\r{step}%")) == ""
    assert printed(view, stream, 20.0, out(0, "\r100%\n"), out(1, "\r100%\n")) == "[0-1] 100%\n"


def test_a_terminal_has_one_line_that_updates(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    view = TerminalView(range(2), stream, stream)
    assert printed(view, stream, 0.0, out(0, "\r1%")) == ""
    assert printed(view, stream, 0.16) == "[0]   1%"
    assert printed(view, stream, 0.2, out(0, "\r2%"), out(1, "\r2%")) == "\r\x1b[K[0-1] 2%"
    view.handle(out(0, "\r2%"))
    assert printed(view, stream, 0.3, out(1, "\r3% " + "x" * 50)) == "\r\x1b[K[0]   2% (+1)"
    long_line = out(0, "\r" + "y" * 50)
    view.handle(out(1, ""))
    assert printed(view, stream, 0.4, long_line) == "\r\x1b[K[0]   " + "y" * 18 + " (+1)"
    view.flush()
    assert stream.getvalue().endswith("\r\x1b[K[0]   " + "y" * 50 + "\n[1]   3% " + "x" * 50 + "\n")


def test_rich_output_is_its_text():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    for rank in range(2):
        view.handle(RichOutput("r", rank, "result", {"text/plain": "42"}))
        view.handle(RichOutput("r", rank, "display", {"text/plain": "<Figure>", "image/png": "x"}))
    view.handle(RichOutput("r", 0, "display", {"image/png": "x"}, display_id="d"))
    view.handle(RichOutput("r", 0, "update", {"text/plain": "new", "text/html": "x"}, display_id="d"))
    view.flush()
    assert stream.getvalue().splitlines() == ["[0-1] 42", "[0-1] <Figure>", "[0]   <image/png>", "[0]   new"]


def test_clear_output_takes_back_what_is_not_printed_yet():
    stream = io.StringIO()
    view = TerminalView(range(2), stream)
    view.handle(out(0, "a\n"))
    view.handle(OutputCleared("r", 0, wait=False))
    view.handle(out(0, "b\n"))
    view.flush()
    assert stream.getvalue() == "[0]   b\n"
