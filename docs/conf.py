"""Settings of the documentation's site, which Sphinx reads: `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

import jupyter_ddl

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from site_pages.contents import with_contents  # noqa: E402
from site_pages.project import for_site  # noqa: E402
from site_pages.writing import write  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LOG = logging.getLogger(__name__)
LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="((?:https?:)?//[^"]+)"')

project = "jupyter_ddl"
author = "the jupyter_ddl developers"
copyright = author  # noqa: A001  Sphinx's name
release = version = jupyter_ddl.__version__

extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["profiles", "site_pages", "site_static"]
# Anchors as GitHub has them.
myst_heading_anchors = 4
# `--` and quotes are code more often than not.
smartquotes = False
# Cells have magics, which are no Python.
highlight_language = "ipython"

html_theme = "furo"
html_title = "jupyter_ddl"
html_static_path = ["site_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Have Sphinx write the pages that are made from the code, and read the others as the site has them."""
    app.connect("builder-inited", lambda _: write(DOCS / "reference"))
    app.connect("source-read", _read)
    app.connect("build-finished", _check_loads)


def _read(_: Sphinx, name: str, source: list[str]) -> None:
    if not name.startswith("reference/"):
        source[0] = for_site(source[0])
    if name == "index":
        source[0] = with_contents(source[0])


def _check_loads(app: Sphinx, error: Exception | None) -> None:
    """Warn of a page that loads something from a network, which not every reader has."""
    if error is not None or app.builder.format != "html":
        return
    for page in sorted(Path(app.outdir).rglob("*.html")):
        for found in LOADED.findall(page.read_text()):
            LOG.warning("A page must load nothing from a network. Received: %s in %s", found, page.name)
