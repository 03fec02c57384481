"""Names of the ranks' user are looked up, whatever his classes do when they are asked."""

from __future__ import annotations

import threading
import time
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ddl.engine import lookups as lookups_module
from jupyter_ddl.engine.lookups import MAX_HUNG, Lookups
from jupyter_ddl.protocol.requests import LookUp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.protocol.rank_answers import LookedUp

ENDS = threading.Event()
STARTED = threading.Event()


class Hangs:
    """Does not return when its names are asked for."""

    def __dir__(self) -> list[str]:
        STARTED.set()
        ENDS.wait()
        return []


class Exits:
    """Raises what would end a thread."""

    def __dir__(self) -> list[str]:
        raise SystemExit

    def __getattr__(self, name: str) -> Any:
        raise KeyboardInterrupt


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lookups, Queue[LookedUp]]]:
    monkeypatch.setattr(lookups_module, "HANGS_S", 0.2)
    ENDS.clear()
    STARTED.clear()
    shell = InteractiveShell()
    shell.user_ns.update(hangs=Hangs(), exits=Exits(), plain_name=1)
    answers: Queue[LookedUp] = Queue()
    yield Lookups(shell, 0, answers.put), answers  # type: ignore[arg-type]
    ENDS.set()


def ask(lookups: Lookups, code: str, what: str = "complete") -> None:
    lookups.ask(LookUp(code, what, code, len(code)))


def names(answers: Queue[LookedUp], code: str) -> list[str]:
    """Return what is answered to a request, after what is answered to others."""
    while (answer := answers.get(timeout=30)).look != code:
        pass
    matches: list[str] = answer.content["matches"]
    return matches


def test_a_dir_that_hangs_does_not_end_completion(looked: tuple[Lookups, Queue[LookedUp]]) -> None:
    lookups, answers = looked
    for _ in range(2):
        ask(lookups, "hangs.a")
        time.sleep(0.5)
        ask(lookups, "plain_na")
        assert names(answers, "plain_na") == ["plain_name"]


def test_no_more_threads_hang_than_a_few_and_they_end(looked: tuple[Lookups, Queue[LookedUp]]) -> None:
    lookups, answers = looked
    before = threading.active_count()
    for _ in range(2 * MAX_HUNG):
        ask(lookups, "hangs.a")
        time.sleep(0.3)
    assert threading.active_count() <= before + MAX_HUNG + 1
    ENDS.set()
    ask(lookups, "plain_na")
    assert names(answers, "plain_na") == ["plain_name"]
    until_s = time.monotonic() + 30
    while threading.active_count() > before + 1 and time.monotonic() < until_s:
        time.sleep(0.05)
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize("what", ["complete", "inspect"])
def test_what_a_class_raises_ends_no_thread(looked: tuple[Lookups, Queue[LookedUp]], what: str) -> None:
    lookups, answers = looked
    ask(lookups, "exits.a", what)
    assert answers.get(timeout=30).look == "exits.a"
    ask(lookups, "plain_na")
    assert names(answers, "plain_na") == ["plain_name"]


def test_each_who_asks_is_answered_the_newest_first(
    looked: tuple[Lookups, Queue[LookedUp]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups, answers = looked
    # The thread that looks is not abandoned: what is asked waits for it.
    monkeypatch.setattr(lookups_module, "HANGS_S", 60.0)
    monkeypatch.setattr(lookups_module, "WAITS_S", 60.0)
    ask(lookups, "hangs.a")
    assert STARTED.wait(30)
    for look, code in (("kernel", "plain_n"), ("hub", "plain_n"), ("next key", "plain_na"), ("hub's next", "plain_na")):
        lookups.ask(LookUp(look, "complete", code, len(code)))
    ENDS.set()
    found = [answers.get(timeout=30) for _ in range(5)]
    assert [answer.look for answer in found] == ["hangs.a", "next key", "hub's next", "kernel", "hub"]
    assert all(answer.content["matches"] == ["plain_name"] for answer in found[1:])


def test_a_request_whose_asker_waits_no_longer_is_forgotten(
    looked: tuple[Lookups, Queue[LookedUp]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups, answers = looked
    monkeypatch.setattr(lookups_module, "HANGS_S", 60.0)
    monkeypatch.setattr(lookups_module, "WAITS_S", 0.0)
    ask(lookups, "hangs.a")
    assert STARTED.wait(30)
    for code in ("plain_n", "plain_na"):
        ask(lookups, code)
    ENDS.set()
    assert [answers.get(timeout=30).look for _ in range(2)] == ["hangs.a", "plain_na"]
    ask(lookups, "exits.a")
    assert answers.get(timeout=30).look == "exits.a"
