"""The cells that README.md shows."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def cell_with(words: str) -> str:
    """Return the one cell of README.md that has these words, without its line `%%distributed ...`."""
    cells = re.findall(r"^```python\n(%%distributed.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    found: str
    (found,) = (cell for cell in cells if words in cell)
    return found.partition("\n")[2]
