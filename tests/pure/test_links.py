"""The links of the documentation lead to files, and to headings, that are there: on GitHub, and in the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/*.md"))]


def text_of(page: Path) -> str:
    """Return a page without its blocks of code, in which nothing is a heading or a link."""
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the names by which GitHub knows the headings of a page."""
    headings = re.findall(r"^#+ +(.+?) *$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^()\s]+)\)", text_of(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.name)
def test_links_lead_to_files_that_the_site_can_have(page: Path) -> None:
    # Sphinx makes a page of each of these, follows links to other pages, and copies any other file, but no folder.
    for link in re.findall(r"\]\(([^()\s]+)\)", text_of(page)):
        name = link.partition("#")[0]
        if name and "://" not in link:
            target = (page.parent / name).resolve()
            assert target.is_file(), f"{page.name}: {link}"
            assert target.suffix != ".md" or target in PAGES, f"{page.name}: {link} is no page of the site"
            assert target != ROOT / "README.md", f"{page.name}: {link} is no page of the site"
