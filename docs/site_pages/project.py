"""Rewrites links between docs/ and the repository's root, whose changelog and CONTRIBUTING.md are pages of the site."""

from __future__ import annotations

import re

_PAGES = {"../CHANGELOG.md": "reference/changelog.md", "../CONTRIBUTING.md": "reference/contributing.md"}
_TO_ROOT = re.compile(r"\]\((\.\./(?:CHANGELOG|CONTRIBUTING)\.md)")
_FILE_AS_TEXT = re.compile(r"\[(?:docs/)?([\w-]+)\.md\]\(")
# A reader of GitHub gets the theme of the browser; the site has a switch of its own.
_PICTURE = re.compile(
    r'^<picture>\n\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\n'
    r'\s*<img alt="([^"]+)" src="([^"]+)">\n</picture>$',
    re.MULTILINE,
)
_FROM_ROOT = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


def for_site(text: str) -> str:
    """Return a page of docs/ with its links to the root's pages led to the site's, and their texts without suffixes.

    A picture for each theme becomes two images, of which the site's theme shows one.

    Example:
        >>> for_site("see [words](../CONTRIBUTING.md#words) and [hpc.md](hpc.md)")
        'see [words](reference/contributing.md#words) and [hpc](hpc.md)'
    """
    return _without_suffix(_TO_ROOT.sub(lambda found: f"]({_PAGES[found[1]]}", _PICTURE.sub(_images, text)))


def _images(found: re.Match[str]) -> str:
    dark, alt, light = found.groups()
    return "\n\n".join(
        f"```{{image}} {file}\n:alt: {alt}\n:class: {shown}\n```"
        for file, shown in ((light, "only-light"), (dark, "only-dark"))
    )


def from_root(text: str) -> str:
    """Return a page of the repository's root as one of docs/reference.

    Example:
        >>> from_root("[hub](docs/hub.md#rules), [all](CHANGELOG.md), [code](Makefile)")
        '[hub](../hub.md#rules), [all](changelog.md), [code](../../Makefile)'
    """
    return _without_suffix(_FROM_ROOT.sub(lambda found: f"]({_moved(found[1])})", text))


def _without_suffix(text: str) -> str:
    """Return a page whose links say `runs` where the repository's say `runs.md`, which is no file of the site."""
    return _FILE_AS_TEXT.sub(r"[\1](", text)


def _moved(link: str) -> str:
    if link.startswith("docs/"):
        return f"../{link.removeprefix('docs/')}"
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        if link.partition("#")[0] == name:
            return link.lower()
    return f"../../{link}"
