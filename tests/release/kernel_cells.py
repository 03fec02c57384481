"""Runs cells in a kernel of this Python's, as a notebook does: `python kernel_cells.py FILE`, a list of cells as JSON.

It prints one line of JSON for each cell: what it showed, and the error's traceback. Runs on: a user's environment,
which has ipykernel and jupyter_client by itself.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

CELL_S = 300
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def main() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for cell in json.loads(Path(sys.argv[1]).read_text()):
            outputs: list[dict[str, Any]] = []
            client.execute_interactive(cell, output_hook=outputs.append, timeout=CELL_S)
            print(json.dumps(shown(outputs)))
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def shown(outputs: list[dict[str, Any]]) -> dict[str, str]:
    """Return a cell's text, and its error as the notebook shows it; "" for none."""
    text, error = "", ""
    for output in outputs:
        content = output["content"]
        if output["msg_type"] == "error":
            error = COLOURS.sub("", "\n".join(content["traceback"]))
        text += content.get("text") or content.get("data", {}).get("text/plain", "")
    return {"text": text, "error": error}


if __name__ == "__main__":
    main()
