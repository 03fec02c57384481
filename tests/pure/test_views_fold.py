import random
import sys
import time

import pytest

from jupyter_ddl.views.fold import Fold, Headings, ranks_in


def told(entries):
    return [(ranks_in(entry.members), entry.text) for entry in entries if entry.members]


def say(fold, *statements):
    """Let ranks say lines of stdout; returns all entries."""
    entries = []
    for rank, texts in statements:
        entries += fold.add(rank, "stdout", texts.split())
    return entries


def test_same_lines_fold_and_others_do_not():
    entries = say(Fold(), (0, "epoch loss=1 done"), (1, "epoch loss=2 done"))
    assert told(entries) == [([0, 1], "epoch"), ([0], "loss=1"), ([0], "done"), ([1], "loss=2"), ([1], "done")]


def test_a_line_joins_the_first_entry_after_the_ranks_own_last_one():
    entries = say(Fold(), (0, "a b a"), (1, "a a b"))
    assert told(entries) == [([0, 1], "a"), ([0], "b"), ([0, 1], "a"), ([1], "b")]


def test_streams_do_not_fold_into_each_other():
    fold = Fold()
    entries = fold.add(0, "stdout", ["a"]) + fold.add(1, "stderr", ["a"]) + fold.add(2, "stderr", ["a"])
    assert told(entries) == [([0], "a"), ([1, 2], "a")]


@pytest.mark.parametrize("seed", range(40))
def test_reading_the_entries_of_a_rank_gives_its_lines_in_order(seed):
    generator = random.Random(seed)
    ranks = range(generator.choice([1, 2, 5]))
    window = generator.choice([3, 10, 4096])
    words = "abcdefgh"[: generator.choice([1, 2, 8])]
    fold, entries, said = Fold(window), [], {rank: [] for rank in ranks}
    for _ in range(300):
        rank = generator.choice(ranks)
        kind = generator.choice(["stdout", "stderr"])
        texts = generator.choices(words, k=generator.randint(0, 6))
        entries += fold.add(rank, kind, texts)
        said[rank] += [(kind, text) for text in texts]
    for rank in ranks:
        told_by_rank = [(entry.kind, entry.text) for entry in entries if entry.members >> rank & 1]
        for kind in ("stdout", "stderr"):  # each through a pipe of its own
            assert [line for line in told_by_rank if line[0] == kind] == [
                line for line in said[rank] if line[0] == kind
            ]
    assert [entry.index for entry in entries] == list(range(len(entries)))


def test_lines_fold_whichever_pipe_was_read_first():
    fold = Fold()
    entries = fold.add(0, "stdout", ["a", "b"]) + fold.add(0, "stderr", ["e"]) + fold.add(0, "stdout", ["c"])
    entries += fold.add(1, "stderr", ["e"]) + fold.add(1, "stdout", ["a", "b", "c"])
    assert told(entries) == [([0, 1], "a"), ([0, 1], "b"), ([0, 1], "e"), ([0, 1], "c")]


@pytest.mark.parametrize("seed", range(25))
def test_ranks_that_say_the_same_fold_into_one_entry_a_line_however_they_interleave(seed):
    generator = random.Random(seed)
    script = generator.choices(["a", "b", "c", "step 1", ""], k=200)
    fold, entries, at = Fold(), [], [0, 0, 0, 0]
    while min(at) < len(script):
        rank = generator.choice([rank for rank in range(4) if at[rank] < len(script)])
        size = generator.randint(1, 30)
        entries += fold.add(rank, "stdout", script[at[rank] : at[rank] + size])
        at[rank] += size
    assert told(entries) == [([0, 1, 2, 3], text) for text in script]


@pytest.mark.parametrize("seed", range(20))
def test_withdrawing_takes_back_only_that_ranks_lines(seed):
    generator = random.Random(seed)
    fold, entries, said = Fold(), [], {0: [], 1: [], 2: []}
    for _ in range(200):
        rank = generator.randrange(3)
        if generator.random() < 0.1:
            emptied = fold.withdraw(rank)
            assert all(not entry.members for entry in emptied)
            said[rank] = []
        else:
            text = generator.choice("abc")
            entries += fold.add(rank, "stdout", [text])
            said[rank].append(text)
    for rank, texts in said.items():
        assert [entry.text for entry in entries if entry.members >> rank & 1] == texts


def test_what_left_the_window_cannot_be_joined_or_withdrawn():
    fold = Fold(window=3)
    entries = say(fold, (0, "a b c d"), (1, "a d"))
    assert told(entries) == [([0], "a"), ([0], "b"), ([0], "c"), ([0], "d"), ([1], "a"), ([1], "d")]
    fold.withdraw(0)
    assert told(entries) == [([0], "a"), ([0], "b"), ([0], "c"), ([1], "a"), ([1], "d")]


def test_a_closed_entry_is_not_joined():
    fold = Fold()
    entries = say(fold, (0, "a b"))
    fold.close(entries[0])
    assert not fold.can_join(1, "stdout", "a")
    assert fold.can_join(1, "stdout", "b")
    entries += say(fold, (1, "a"))
    assert told(entries) == [([0], "a"), ([0], "b"), ([1], "a")]


def test_an_entry_is_revived_only_where_the_ranks_order_allows_it():
    fold = Fold()
    first, second = say(fold, (0, "a b"))
    say(fold, (1, "b"))
    fold.withdraw(0)
    assert not fold.revive(first, 1, "c")  # rank 1 has said b, which stands after it
    assert not fold.revive(second, 0, "c")  # rank 1 still says it
    assert fold.revive(first, 0, "c")
    assert told([first, second]) == [([0], "c"), ([1], "b")]
    assert say(fold, (0, "b"), (2, "c")) == []
    assert told([first, second]) == [([0, 2], "c"), ([0, 1], "b")]


def test_headings_are_compact_and_aligned():
    headings = Headings(range(4))
    assert headings.lines(0b1111, "x") == ["[0-3] x"]
    assert headings.lines(0b0100, "x\n y") == ["[2]   x", "[2]    y"]
    assert headings.lines(0b1101, "x") == ["[0,2-3] x"]
    assert headings.lines(0b1111, "") == ["[0-3]"]


def test_100_000_lines_of_8_ranks_fold_fast():
    lines = [f"step {i} loss {i / 7:.4f}" for i in range(100_000)]
    fold, began = Fold(), time.perf_counter()
    for start in range(0, len(lines), 1000):
        for rank in range(8):
            fold.add(rank, "stdout", lines[start : start + 1000])
    lines_per_s = 800_000 / (time.perf_counter() - began)
    assert lines_per_s > 300_000


def test_the_lowest_cursor_is_that_of_the_rank_that_is_furthest_behind():
    chance = random.Random(3)
    for _ in range(100):
        fold, entries, ranks = Fold(window=16), [], list(range(5))
        # Entries of before the window, which a rank that withdraws stays in.
        kept = {rank: set() for rank in ranks}
        while ranks:
            what, rank = chance.random(), chance.choice(ranks)
            if what < 0.1:
                fold.withdraw(rank)
                kept[rank] = {entry.index for entry in entries if rank in ranks_in(entry.members)}
            elif what < 0.2:
                ranks.remove(rank)
            else:
                entries += fold.add(rank, chance.choice(("stdout", "stderr")), chance.choices("abc", k=2))
            behind = [
                max(
                    (one.index for one in entries if one.members >> rank & 1 and one.index not in kept[rank]),
                    default=-1,
                )
                for rank in ranks
            ]
            assert fold.lowest_cursor(sum(1 << rank for rank in ranks)) == min(behind, default=sys.maxsize)
