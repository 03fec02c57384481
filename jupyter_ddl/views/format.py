"""Formats numbers for views: `protocol.number_texts`, by the name that views know it by."""

from __future__ import annotations

from jupyter_ddl.protocol.number_texts import (
    NOTHING,
    counted,
    duration,
    gibibytes,
    loss,
    milliseconds,
    number,
    percent,
    rate,
    size,
    time_left,
    whole,
)

__all__ = [
    "NOTHING",
    "counted",
    "duration",
    "gibibytes",
    "loss",
    "milliseconds",
    "number",
    "percent",
    "rate",
    "size",
    "time_left",
    "whole",
]
