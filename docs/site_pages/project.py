"""Rewrites links between docs/ and the repository's root, whose changelog and CONTRIBUTING.md are pages of the site."""

from __future__ import annotations

import re

_PAGES = {"../CHANGELOG.md": "reference/changelog.md", "../CONTRIBUTING.md": "reference/contributing.md"}
_TO_ROOT = re.compile(r"\]\((\.\./(?:CHANGELOG|CONTRIBUTING)\.md)")
_FROM_ROOT = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


def for_site(text: str) -> str:
    """Return a page of docs/ with its links to the root's pages led to the site's.

    Example:
        >>> for_site("see [words](../CONTRIBUTING.md#words)")
        'see [words](reference/contributing.md#words)'
    """
    return _TO_ROOT.sub(lambda found: f"]({_PAGES[found[1]]}", text)


def from_root(text: str) -> str:
    """Return a page of the repository's root as one of docs/reference.

    Example:
        >>> from_root("[hub](docs/hub.md#rules), [all](CHANGELOG.md), [code](Makefile)")
        '[hub](../hub.md#rules), [all](changelog.md), [code](../../Makefile)'
    """
    return _FROM_ROOT.sub(lambda found: f"]({_moved(found[1])})", text)


def _moved(link: str) -> str:
    if link.startswith("docs/"):
        return f"../{link.removeprefix('docs/')}"
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        if link.partition("#")[0] == name:
            return link.lower()
    return f"../../{link}"
