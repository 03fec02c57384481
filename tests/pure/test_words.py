"""Private words do not come back: CONTRIBUTING.md's glossary has the ones to use, and this list those not to use.

It reads comments, docstrings and texts, and not names; the documentation and the notebooks whole.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

import jupyter_ddl

PACKAGE = Path(jupyter_ddl.__file__).parent
ROOT = PACKAGE.parent
BROWSER = ROOT / "labextension" / "src"

# Word -> what to write.
NOT_TO_USE = {
    r"\btak(?:es?|ing) leave\b": "ends, unsubscribes",
    r"\b(?:is|are|be|was|were|been) told\b": "is notified, is reported",
    r"\b(?:go|goes|going|went|gone) on\b": "continues, runs, resumes",
    r"\bwhoever\b": "the process, user or code that ...",
    r"\bnobody\b": "no process, not known",
    r"\bsomebody\b": "a user, another process",
    r"\blikeness\b": "agreement",
    r"\banew\b": "again, new; reset",
    r"\bmeetings?\b": "barrier",
    r"\b(?:can|cannot|could) be had\b": "is (not) available",
}
# Where a word is right: file -> the words around it.
ALLOWED = {"docs/security.md": ("user `nobody`", "shows as `nobody`")}

GLOSSARY = re.compile(r"^\| not \| but \|\n(?:\|.*\n)+", re.MULTILINE)
PYTHON = sorted(PACKAGE.rglob("*.py"))
TYPESCRIPT = sorted(BROWSER.rglob("*.ts"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("notebooks/*.ipynb")),
]


def prose_of(path: Path) -> str:
    """Return a module's comments and texts, docstrings among them; of others all but the glossary's second list."""
    if path.suffix != ".py":
        return GLOSSARY.sub("", path.read_text())
    with path.open("rb") as file:
        tokens = tokenize.tokenize(io.BytesIO(file.read()).readline)
        texts = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
        return "\n".join(token.string for token in tokens if token.type in texts)


def private_words(text: str) -> list[str]:
    """Return the words not to use that a text has, each with those around it."""
    flat = re.sub(r"\s+(?:#|//|\*)?\s*", " ", text)
    return [
        f"{flat[max(0, found.start() - 40) : found.end() + 30]!r}: write {instead}"
        for word, instead in NOT_TO_USE.items()
        for found in re.finditer(word, flat, re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", [*PYTHON, *TYPESCRIPT, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_has_no_private_words(path: Path) -> None:
    allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), ())
    found = [line for line in private_words(prose_of(path)) if not any(words in line for words in allowed)]
    assert not found, "\n".join(found)


def test_words_are_found_across_lines() -> None:
    assert len(private_words("a cell goes\n    # on, and nobody\n    // is told")) == 3
