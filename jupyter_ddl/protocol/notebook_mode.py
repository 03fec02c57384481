"""Reads whether a notebook runs on ranks as a whole, as labextension/src/notebook/whole_notebook.ts writes it."""

from __future__ import annotations

from typing import Any


def runs_whole(metadata: Any) -> bool:
    """Return whether each cell without a magic is to run on the ranks.

    Args:
        metadata: the notebook's, from any source.
    """
    kept = metadata.get("jupyter_ddl") if isinstance(metadata, dict) else None
    return isinstance(kept, dict) and kept.get("auto") is True
