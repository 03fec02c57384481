"""Makes the file for support of a run, as `jupyter ddl report` does, and says what is in it."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.server.requests import HubHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.doctor import Check
    from jupyter_ddl.runs.store import RunRecord


class ReportHandler(HubHandler):
    """POST runs/RUN/report {with_code} -> {file, parts, zip}: the file in base64, and the list of what is in it.

    Both come in one answer, so that what a user gets is what was shown, and the server keeps nothing of it.
    """

    @authenticated
    @authorized
    async def post(self, run: str) -> None:
        """Answer with the file for support of a run of this user's."""
        asked = self.get_json_body() or {}
        with_code = asked.get("with_code", False) if isinstance(asked, dict) else None
        if not isinstance(with_code, bool):
            raise HTTPError(400, "with_code is true or false. Received: something else. Leave it out, or say which.")
        record = await self.run(run)
        checks = await self._hub.examination.checks(self.in_thread)
        self.answer(await self.in_thread(report, record, checks, with_code))


def report(record: RunRecord, checks: Sequence[Check], with_code: bool) -> dict[str, Any]:
    """Return the file for support: its name, its parts' names, sizes and notes, and itself.

    Args:
        record: of the run.
        checks: of this host.
        with_code: the cell, or the script's command, may be in it.
    """
    # What they import is for those who need a report.
    from jupyter_ddl.doctor import as_json, as_line
    from jupyter_ddl.support import contents, zip_file

    parts = [
        *contents.parts_of_run(record, with_code=with_code),
        *contents.parts_of_cluster(record),
        *contents.parts_of_machine(os.environ, map(as_line, checks), as_json(checks)),
    ]
    shown = [{"name": part.name, "bytes": len(part.content), "note": part.note} for part in parts]
    made = base64.b64encode(zip_file.zipped(parts)).decode()
    return {"file": f"ddl-report-{record.run}.zip", "parts": shown, "zip": made}
