"""The cells that README.md and docs/start.md show."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
START = README.parent / "docs" / "start.md"


def cell_with(words: str, page: Path = README) -> str:
    """Return the one cell of a page that has these words, without its line `%%distributed ...`."""
    cells = re.findall(r"^```python\n(%%distributed.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    found: str
    (found,) = (cell for cell in cells if words in cell)
    return found.partition("\n")[2]
