"""Looks for what matches a regular expression in a process of its own: one that never ends costs this server nothing.

Python's `re` holds the interpreter's lock while it matches, and some expressions take longer than the universe on forty
letters: `(a+)+b`. The process is killed after a few seconds.

Runs on: Jupyter server, in its event loop; `main` in that process.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.run_module import command
from jupyter_ddl.runs.store import find
from jupyter_ddl.server.log_pages import LinesQuery, page_of

if TYPE_CHECKING:
    from jupyter_ddl.runs.store import RunRecord

# Of these its start takes a few tenths, and a page half of one.
DEADLINE_S = 5.0
_MEMORY_BYTES = 2 << 30


async def page_of_expression(record: RunRecord, query: LinesQuery) -> dict[str, Any] | None:
    """Return a page of lines that match an expression; None where there is no such log.

    Raises:
        InvalidInput: it is no expression, or takes too long.
    """
    process = await asyncio.create_subprocess_exec(
        *command(__name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    question = json.dumps({"run": record.run, "query": asdict(query)}).encode()
    try:
        output, _ = await asyncio.wait_for(process.communicate(question), DEADLINE_S)
    except asyncio.TimeoutError:
        output = b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if not output:
        rule = f"A regular expression matches a line within {DEADLINE_S:.0f} s."
        remedy = "Write it without repetitions of repetitions, such as (a+)+."
        raise InvalidInput(rule, f"{query.pattern[:80]!r}, which takes longer", remedy)
    answer = json.loads(output)
    if "error" in answer:
        raise InvalidInput(*answer["error"])
    page: dict[str, Any] | None = answer["page"]
    return page


def main() -> None:
    """Answer one question on standard input."""
    # A server that is killed meanwhile leaves nothing that computes for ever.
    resource.setrlimit(resource.RLIMIT_CPU, (int(DEADLINE_S) + 1, int(DEADLINE_S) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    asked = json.load(sys.stdin)
    record = find(asked["run"])
    answer: dict[str, Any]
    try:
        answer = {"page": None if record is None else page_of(record, LinesQuery(**asked["query"]))}
    except InvalidInput as error:
        answer = {"error": [error.rule, error.received, error.remedy]}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
