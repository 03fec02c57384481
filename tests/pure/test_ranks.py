import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_sets import compact, parse


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([3, 2, 0, 2], "0,2-3"),
        ([0, 2, 4], "0,2,4"),
        (range(1024), "0-1023"),
        ([8, 9, 10, 12], "8-10,12"),
    ],
)
def test_compact(ranks, text):
    assert compact(ranks) == text


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0", (0,)),
        ("0,2-3", (0, 2, 3)),
        (" 3 , 0 - 1 ", (0, 1, 3)),
        ("2,0-3,2", (0, 1, 2, 3)),
        ("1-1", (1,)),
    ],
)
def test_parse(text, ranks):
    assert parse(text, world_size=4) == ranks


@pytest.mark.parametrize("text", ["", ",", "0,", "a", "1-", "-1", "0-1-2", "1.5", "٣", "²", "0;1", "all", "9" * 5000])
def test_parse_junk(text):
    with pytest.raises(InvalidInput) as caught:
        parse(text, world_size=4)
    assert str(caught.value) == (
        f"Ranks must be numbers and ranges, separated by commas. Received: {text!r}. Write them like 0,2-3."
    )


@pytest.mark.parametrize(("text", "rank"), [("7", 7), ("0,4", 4), ("0-999999999", 999999999)])
def test_parse_rank_that_does_not_exist(text, rank):
    with pytest.raises(InvalidInput) as caught:
        parse(text, world_size=4)
    assert str(caught.value) == (
        f"A rank must be below the world size. Received: rank {rank}, world_size=4. Ranks here are 0-3."
    )


def test_parse_falling_range():
    with pytest.raises(InvalidInput) as caught:
        parse("0,3-1", world_size=4)
    assert str(caught.value) == "A range of ranks must rise. Received: '3-1'. Write 1-3."
