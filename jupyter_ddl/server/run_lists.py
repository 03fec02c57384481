"""Answers requests for the list of runs: a page of it, and what its runs can be chosen by."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.runs.choice import FIELDS, Choice, counted
from jupyter_ddl.runs.store import count, newest_first
from jupyter_ddl.server.requests import MAX_TEXT_CHARACTERS, HubHandler
from jupyter_ddl.server.runs import as_json

MAX_LISTED = 200
# Runs that one page of a search reads: it must not read years of them at once.
MAX_SEARCHED = 2_000
_MOST_TEXTS = 20


class ChoosingHandler(HubHandler):
    """A request whose address says which runs are meant."""

    def choice(self) -> Choice:
        """Return which runs the address means.

        Raises:
            HTTPError: it says too much.
        """
        texts = {field: tuple(self.get_query_arguments(field)) for field in FIELDS}
        for field, given in texts.items():
            if len(given) > _MOST_TEXTS or any(len(text) > MAX_TEXT_CHARACTERS for text in given):
                rule = f"{field} must be {_MOST_TEXTS} texts at most, of {MAX_TEXT_CHARACTERS} characters each."
                raise HTTPError(400, f"{rule} Received: {len(given)}, or a longer one. Ask for fewer.")
        return Choice(**texts, text=self.text("search"))


class RunsHandler(ChoosingHandler):
    """GET runs?search=&state=&notebook=&tag=&name=&model=&before=RUN&limit=50 -> {runs, more, next}: newest first."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the runs before a given one that the address means."""
        limit = self.number("limit", 50, 1, MAX_LISTED)
        before = self.text("before") or None
        self.answer(await self.in_thread(listing, self.choice(), before, limit))


class RunValuesHandler(ChoosingHandler):
    """GET run-values?search=&state=&... -> {total, read, chosen, values}: how many runs are meant, and what may be."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with numbers of runs, and the values that occur in the newest of them."""
        choice = self.choice()
        self.answer(await self.in_thread(values, choice))


def listing(choice: Choice, before: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the list: the chosen runs before a given one.

    Args:
        choice: which runs are listed.
        before: the id of the run that the page begins after; None for the newest.
        limit: how many runs at most.
    """
    found = []
    last: str | None = None
    records = newest_first(before)
    for record in islice(records, MAX_SEARCHED):
        last = record.run
        if choice.has(record):
            found.append(record)
        if len(found) == limit:
            break
    more = next(records, None) is not None
    # A list shows no fault, and a fault may hold where each rank was.
    listed = [as_json(replace(record, fault=None)) for record in found]
    return {"runs": listed, "more": more, "next": last if more else None}


def values(choice: Choice) -> dict[str, Any]:
    """Return `counted` of the newest runs, and `total`, how many runs there are."""
    return {"total": count(), **counted(newest_first(), choice, MAX_SEARCHED)}
