import random
import time

import pytest

from jupyter_ddl.views.line import LINE_LIMIT, LineBuffer, plain_lines

# Quadratic time would be hours.
DEADLINE_S = 60.0

# What keras.utils.Progbar of Keras 3.15.1 wrote to a pipe: 3 steps, with "Epoch" and "done" printed around it.
KERAS = (
    "Epoch 1/2\n"
    "\r\x1b[1m1/3\x1b[0m \x1b[32m━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━\x1b[0m \x1b[1m0s\x1b[0m 8us/step - loss: 1.0000"
    + "\x08" * 51
    + "\r\x1b[1m2/3\x1b[0m \x1b[32m━━━━━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━\x1b[0m \x1b[1m0s\x1b[0m 60ms/step - loss: 0.5000"
    + "\x08" * 52
    + "\r\x1b[1m3/3\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m0s\x1b[0m 60ms/step - loss: 0.3333"
    + "\ndone\n"
)

# What tqdm 4.70.1 wrote: trange(2) around trange(2), both left on the screen.
TQDM_NESTED = (
    "\router:   0%|      | 0/2 [00:00<?, ?it/s]"
    "\n\rinner:   0%|      | 0/2 [00:00<?, ?it/s]\x1b[A"
    "\n\rinner:  50%|▌| 1/2 [00:00<00:00, 233016.\x1b[A"
    "\n\rinner: 100%|█| 2/2 [00:00<00:00, 16832.6\x1b[A"
    "\rinner: 100%|█| 2/2 [00:00<00:00, 11444.2\n"
    "\router:  50%|▌| 1/2 [00:00<00:00, 2888.64"
    "\n\rinner:   0%|      | 0/2 [00:00<?, ?it/s]\x1b[A"
    "\n\rinner:  50%|▌| 1/2 [00:00<00:00, 262144.\x1b[A"
    "\n\rinner: 100%|█| 2/2 [00:00<00:00, 19208.8\x1b[A"
    "\rinner: 100%|█| 2/2 [00:00<00:00, 12446.0\n"
    "\router: 100%|█| 2/2 [00:00<00:00, 2835.79\router: 100%|█| 2/2 [00:00<00:00, 2627.19\n"
)

# The same with leave=False on the inner bar, and tqdm.write() after it: one round of two.
TQDM_WRITE = (
    "\router:   0%|      | 0/2 [00:00<?, ?it/s]"
    "\n\rinner:   0%|      | 0/3 [00:00<?, ?it/s]\x1b[A"
    "\n\rinner: 100%|█| 3/3 [00:00<00:00, 18424.1\x1b[A"
    "\n\r                                        \x1b[A"
    "\r                                        \repoch 0\n"
    "\n\router:   0%|      | 0/2 [00:00<?, ?it/s]\router:  50%|▌| 1/2 [00:00<00:00, 2235.77"
)


def fed(*chunks):
    """Return the finished lines and the live rows."""
    buffer = LineBuffer()
    return [line for chunk in chunks for line in buffer.feed(chunk)], buffer.live


def cut(text, seed, longest=9):
    generator = random.Random(seed)
    at = 0
    while at < len(text):
        size = generator.randint(1, longest)
        yield text[at : at + size]
        at += size


@pytest.mark.parametrize(
    ("text", "lines", "live"),
    [
        ("", [], ()),
        ("a", [], ("a",)),
        ("a\nb", ["a"], ("b",)),
        ("a\n\n\nb\n", ["a", "", "", "b"], ()),
        ("a\r\nb\r\n", ["a", "b"], ()),
        ("10%\r20%", [], ("20%",)),
        ("10%\r", [], ("10%",)),
        ("long\rab\n", ["abng"], ()),
        ("abc\b\bX\n", ["aXc"], ()),
        ("abc\b \b\n", ["ab"], ()),
        ("abc\r\x1b[Kd\n", ["d"], ()),
        ("abcdef\b\b\x1b[K\n", ["abcd"], ()),
        ("abc\b\x1b[1Kd\n", ["  d"], ()),
        ("abc\x1b[2Kd\n", ["   d"], ()),
        ("abc\x1b[2D\x1b[CX\n", ["abX"], ()),
        ("abc\x1b[2Gx\n", ["axc"], ()),
        ("\x1b[1;31mred\x1b[0m\n", ["red"], ()),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07\n", ["link"], ()),
        ("\x1b[?25l\x1b(Bhidden cursor\x1b[?25h\n", ["hidden cursor"], ()),
        ("tab\tstays  \n", ["tab\tstays"], ()),
        ("bell\a nul\0 esc\x1b\x1bé vt\v ff\f del\x7f c1\x9b ls\u2028\n", ["bell nul esc␛␛é vt␋ ff␌ del␡ c1� ls�"], ()),
        ("a\nb\x1b[AX\n", [], ("aX", "b")),
        ("a\nb\n\x1b[2A\x1b[Jc", [], ("c",)),
        ("a\nb\x1b[2Jc", ["a"], (" c",)),
    ],
)
def test_text_as_a_terminal_shows_it(text, lines, live):
    assert fed(text) == (lines, live)


def test_finish_gives_what_was_live_and_begins_anew():
    buffer = LineBuffer()
    assert buffer.feed("a\nb\x1b[3") == ["a"]
    assert buffer.finish() == ["b"]
    assert buffer.live == ()
    assert buffer.feed("c\n") == ["c"]


@pytest.mark.parametrize("seed", range(25))
def test_any_cut_gives_the_same_lines(seed):
    pieces = [
        "word",
        "  ",
        "\n",
        "\r",
        "\b\b",
        "\x1b[K",
        "\x1b[32m",
        "\x1b[0m",
        "é━",
        "\x1b[2C",
        "\x1b]0;t\x07",
        "\r\n",
    ]
    text = "".join(random.Random(seed).choices(pieces, k=200))
    assert fed(*cut(text, seed)) == fed(text)


def test_keras_progress_bar():
    lines, live = fed(KERAS)
    assert lines == ["Epoch 1/2", "3/3 ━━━━━━━━━━━━━━━━━━━━ 0s 60ms/step - loss: 0.3333", "done"]
    assert live == ()


def test_keras_progress_bar_on_its_way_shows_what_is_left():
    _, live = fed(KERAS[: KERAS.index("\x08")])
    assert live == ("1/3 ━━━━━━────────────── 0s 8us/step - loss: 1.0000",)


@pytest.mark.parametrize("seed", range(10))
def test_keras_progress_bar_cut_anywhere(seed):
    assert fed(*cut(KERAS, seed)) == fed(KERAS)


def test_tqdm_nested_bars():
    buffer = LineBuffer()
    middle = TQDM_NESTED.index("\n\rinner: 100%")
    assert buffer.feed(TQDM_NESTED[:middle]) == []
    assert buffer.live == ("outer:   0%|      | 0/2 [00:00<?, ?it/s]", "inner:  50%|▌| 1/2 [00:00<00:00, 233016.")
    assert buffer.feed(TQDM_NESTED[middle:]) + buffer.finish() == [
        "inner: 100%|█| 2/2 [00:00<00:00, 11444.2",
        "inner: 100%|█| 2/2 [00:00<00:00, 12446.0",
        "outer: 100%|█| 2/2 [00:00<00:00, 2627.19",
    ]


@pytest.mark.parametrize("seed", range(25))
def test_tqdm_nested_bars_cut_anywhere_lose_nothing(seed):
    # A cut between "down" and "up again" may leave an outdated line behind, but each bar's last state is there once.
    buffer = LineBuffer()
    lines = [line for chunk in cut(TQDM_NESTED, seed, 40) for line in buffer.feed(chunk)] + buffer.finish()
    final = [line for line in lines if "100%" in line]
    assert final == plain_lines(TQDM_NESTED)
    assert len(lines) <= len(final) + 3


def test_tqdm_write():
    lines, live = fed(TQDM_WRITE)
    assert lines == ["epoch 0"]
    assert live == ("", "outer:  50%|▌| 1/2 [00:00<00:00, 2235.77")


def test_lines_after_nested_bars_are_finished_again():
    buffer = LineBuffer()
    buffer.feed(TQDM_NESTED)
    assert buffer.feed("one\ntwo\nthree\n")[-2:] == ["two", "three"]
    assert buffer.live == ()


def test_moving_up_to_a_line_that_was_finished_before_keeps_the_rows_apart():
    assert fed("a\n", "b\x1b[A\rc") == (["a"], ("c", "b"))
    assert fed("a\n", "b\x1b[A\x1b[B\n") == (["a"], ("b",))


@pytest.mark.parametrize(
    "control", ["\x1b[9999999A", "\x1b[" + "9" * 6000 + "A", "\x1b[9999B", "\n" * 5000 + "\x1b[60A"]
)
def test_wild_cursor_moves_are_bounded(control):
    buffer = LineBuffer()
    buffer.feed(f"a{control}b")
    assert len(buffer.live) <= 33
    assert (buffer.feed("\n" * 200 + "c\n") + buffer.finish())[-1] == "c"


@pytest.mark.parametrize("before", ["", "\r"])
def test_a_50_mb_line_is_shown_in_part(before):
    began = time.perf_counter()
    text = before + "x" * 50_000_000 + "\nnext\n"
    lines, _ = fed(text)
    assert lines == ["x" * LINE_LIMIT + "… (+49,998,000 characters)", "next"]
    assert time.perf_counter() - began < DEADLINE_S


def test_a_long_line_in_many_chunks():
    assert fed(*["ab" * 300] * 10, "\n") == (["ab" * (LINE_LIMIT // 2) + "… (+4,000 characters)"], ())


@pytest.mark.parametrize(
    "text", ["\x1b[", "\x1b]", "\x1b ", "\x1b", "\x1b]0;", "\b", "\r", "\x1b[1", "\x1b[A", "\x1b[C"]
)
def test_hostile_repetition_takes_linear_time(text):
    began = time.perf_counter()
    buffer = LineBuffer()
    buffer.feed(text * (100_000 // len(text)) + "x" * 1000)
    buffer.feed("\nend\n")
    assert buffer.finish()[-1:] in ([], ["end"])
    assert time.perf_counter() - began < DEADLINE_S


def test_markup_is_text():
    hostile = "<script>alert(1)</script> &lt; <img src=x onerror=y>"
    assert plain_lines(hostile) == [hostile]
