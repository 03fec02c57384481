"""Makes the site's tables of contents of the lists in docs/index.md, whose links a reader of the repository follows."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([\w-]+)\.md\)")
# Pages that are made from the code, which the repository does not have.
REFERENCE = ("magics", "commands", "variables", "python", "errors", "faults", "benchmarks")
PROJECT = ("changelog", "contributing")


def sections(text: str) -> dict[str, list[str]]:
    r"""Return the pages that each section of the index lists, without their suffix.

    Example:
        >>> sections("# Docs\n## Begin\n- [Install](install.md): into a venv")
        {'Begin': ['install']}
    """
    _, *rest = _SECTION.split(text)
    return {title: _LINK.findall(body) for title, body in zip(rest[::2], rest[1::2], strict=True)}


def with_contents(text: str) -> str:
    """Return the index with the reference's links, and the tables of contents that Sphinx reads."""
    found = sections(text)
    made = "\n".join(f"- [](reference/{name}.md)" for name in REFERENCE)
    found["Reference"] = [f"reference/{name}" for name in REFERENCE]
    found["Project"] = [f"reference/{name}" for name in PROJECT]
    contents = "\n\n".join(_toctree(title, pages) for title, pages in found.items())
    return f"{text}\n\n## Reference\n\nMade from the code:\n\n{made}\n\n{contents}\n"


def _toctree(title: str, pages: list[str]) -> str:
    listed = "\n".join(pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```"
