"""Makes pages of lines of a rank's log, or of all ranks' merged by time: from any place, all or those that match.

Each page costs a bounded number of bytes and, where it looks for something, of seconds; the next one continues there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs.merged_lines import END, START, cursor_of, cursor_text, merged_lines
from jupyter_ddl.runs.rank_lines import Cursor
from jupyter_ddl.views import log_filter
from jupyter_ddl.views.log_filter import LineFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.runs.merged_lines import MergedLines
    from jupyter_ddl.runs.rank_lines import Line
    from jupyter_ddl.runs.store import RunRecord

MAX_LINES = 2_000
MAX_LOOKED_BYTES = 64 << 20
LOOK_S = 0.5
BEYOND = "+"
_PAGE_CHARACTERS = 1 << 16
_LINES_A_LOOK_AT_THE_CLOCK = 64


@dataclass(frozen=True)
class LinesQuery:
    """Which lines are asked for.

    Attributes:
        rank: whose; None for all ranks.
        only_stderr: those of standard error alone.
        after: a place: the lines after it; with BEYOND at its end, without the line that it names.
        before: a place: the lines before it. Where neither is given, the last ones.
        share: a share of the time, or of one rank's log: the lines after it.
        most: how many at most.
        pattern: only lines that have this text; empty for all.
        is_expression: it is a regular expression.
        is_exact: its capitals matter.
        only_errors: only lines that look like errors.
    """

    rank: int | None = None
    only_stderr: bool = False
    after: str | None = None
    before: str | None = None
    share: float | None = None
    most: int = MAX_LINES
    pattern: str = ""
    is_expression: bool = False
    is_exact: bool = False
    only_errors: bool = False


def page_of(record: RunRecord, query: LinesQuery) -> dict[str, Any] | None:
    """Return a page as a browser reads it; None where there is no such log.

    Raises:
        InvalidInput: the pattern, or a place, is none.
    """
    wanted = _filter(query)
    with merged_lines(record, query.rank, only_stderr=query.only_stderr) as lines:
        return None if lines is None else _page(lines, query, wanted)


def _filter(query: LinesQuery) -> LineFilter:
    if query.only_errors:
        return log_filter.errors()
    if not query.pattern:
        return LineFilter()
    try:
        return log_filter.filter_of(query.pattern, is_expression=query.is_expression, is_exact=query.is_exact)
    except ValueError as error:
        rule = "A filter is a regular expression."
        remedy = "Put a backslash before a character that is meant literally."
        raise InvalidInput(rule, f"{query.pattern[:80]!r}: {error}", remedy) from error


def _page(lines: MergedLines, query: LinesQuery, wanted: LineFilter) -> dict[str, Any]:
    is_backward = query.after is None and query.share is None
    start = _start(lines, query)
    found = lines.backward(start, wanted.may_skip) if is_backward else lines.forward(start, wanted.may_skip)
    if query.after is not None and query.after.endswith(BEYOND):
        found = (line for line in found if (line.rank, line.begin) != (start.rank, start.position))
    taken, first, last, looked_bytes = _take(found, wanted, query.most)
    if is_backward:
        taken.reverse()
        # The end moves, a place does not.
        following = _after(first) if start == END and first is not None else START if start == END else start
        preceding = start if last is None else Cursor(last.at_us, last.rank, last.begin)
    else:
        preceding = start
        following = start if last is None else _after(last)
    is_all = looked_bytes < 0
    at_end = is_all if not is_backward else query.before is None
    return {
        "lines": taken,
        "begin": cursor_text(START if is_backward and is_all else preceding),
        "next": cursor_text(following),
        "at_start": is_all if is_backward else start == START,
        "at_end": at_end,
        "unfinished": _unfinished(lines, wanted) if at_end else [],
        "begin_share": lines.share(preceding) if preceding != END else 1.0,
        "next_share": lines.share(following),
        "bytes": lines.size,
        "timed": lines.timed,
    }


def _take(
    found: Iterator[Line], wanted: LineFilter, most: int
) -> tuple[list[list[Any]], Line | None, Line | None, int]:
    """Return the lines of a page, the first and the last line that were looked at, and how many bytes: -1 for all."""
    until_s = time.monotonic() + LOOK_S
    taken: list[list[Any]] = []
    first: Line | None = None
    last: Line | None = None
    characters = looked_bytes = 0
    for count, line in enumerate(found, 1):
        first, last = first or line, line
        looked_bytes += line.end - line.begin
        text = None if line.data is None else wanted.shown(line.data)
        if text is not None:
            place = cursor_text(Cursor(line.at_us, line.rank, line.begin))
            taken.append([line.rank, line.number, text, place, line.at_us])
            characters += len(text)
        is_late = count % _LINES_A_LOOK_AT_THE_CLOCK == 0 and time.monotonic() > until_s
        if len(taken) >= most or characters >= _PAGE_CHARACTERS or looked_bytes >= MAX_LOOKED_BYTES or is_late:
            return taken, first, last, looked_bytes
    return taken, first, last, -1


def _start(lines: MergedLines, query: LinesQuery) -> Cursor:
    if query.share is not None:
        return START if query.share <= 0 else lines.at(query.share)
    text = query.before if query.after is None else query.after
    if text is None:
        return END
    found = START if text == "start" else cursor_of(text.removesuffix(BEYOND))
    if found is None:
        raise InvalidInput("A place in a log is one that a page named.", f"{text[:80]!r}", "Ask for a share instead.")
    return found


def _after(line: Line) -> Cursor:
    return Cursor(line.at_us, line.rank, line.end)


def _unfinished(lines: MergedLines, wanted: LineFilter) -> list[list[Any]]:
    found = ((rank, wanted.shown(data)) for rank, data in lines.unfinished())
    return [[rank, text] for rank, text in found if text is not None]
