"""Reports the doctor's checks as text and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: what: "Horovod".
        status: "note" for what works but could be better, "problem" for what keeps cells from training.
        text: what was found, one line.
        remedy: what to do about it; empty where it is ok.
        facts: the same for programs: JSON values by name.
    """

    name: str
    status: Status
    text: str
    remedy: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


def as_line(check: Check) -> str:
    """Return a check as a line of an aligned list, its remedy under it."""
    line = f"{check.status:<7}  {check.name:<13}  {check.text}"
    return f"{line}\n{'':<24}-> {check.remedy}" if check.remedy else line


def summary(checks: Sequence[Check]) -> str:
    """Return the line that ends the list."""
    problems = sum(check.status == "problem" for check in checks)
    return f"{problems} problem{'' if problems == 1 else 's'}." if problems else "No problems: cells can train."


def as_json(checks: Sequence[Check]) -> dict[str, object]:
    """Return the checks as JSON values."""
    return {"ok": is_well(checks), "checks": [asdict(check) for check in checks]}


def is_well(checks: Sequence[Check]) -> bool:
    """Whether no check found a problem."""
    return all(check.status != "problem" for check in checks)
