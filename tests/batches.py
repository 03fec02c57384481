"""Messages to the browser (views/event_batches.py), read as it reads them."""

from __future__ import annotations

import json
import zlib
from typing import Any


def read(data: bytes) -> dict[str, Any]:
    """Return a message with all its events as objects."""
    return expanded(json.loads(data))


def read_packed(data: bytes) -> dict[str, Any]:
    """Return a message of the widget's, which is compressed, with all its events as objects."""
    return read(zlib.decompress(data))


def expanded(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its rows as objects, which hold what was sent."""
    tables = message["tables"]
    events: list[Any] = []
    for event in message["events"]:
        events += _events(tables, event) if isinstance(event, list) else [event]
    return {**message, "events": events}


def _events(tables: list[Any], row: list[Any]) -> list[dict[str, Any]]:
    table = tables[row[0]]
    event = {"type": table["type"], **table["common"], **dict(zip(table["columns"], row[1:], strict=False))}
    ranks = event["rank"] if isinstance(event["rank"], list) else [event["rank"]]
    return [{**event, "rank": rank} for rank in ranks]
