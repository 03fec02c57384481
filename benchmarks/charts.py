"""Draws a chart of the documentation twice, for light and for dark pages, in few bytes."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THEMES = ("light", "dark")
DPI = 110
# A chart has a dozen colours, and the steps between them at its edges.
COLOURS = 48
# The dark one is the site's background.
_BACKGROUND = {"light": "white", "dark": "#131416"}
_TEXT = {"light": "black", "dark": "#cfd0d0"}


@contextmanager
def themed(theme: str) -> Iterator[Any]:
    """Give matplotlib's pyplot, which draws in the theme's colours and asks for no display.

    Args:
        theme: of THEMES.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    drawn = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    grounds = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    # Its keys are literals in matplotlib's types.
    settings: Any = dict.fromkeys(drawn, _TEXT[theme]) | dict.fromkeys(grounds, _BACKGROUND[theme])
    with mpl.rc_context(settings):
        yield pyplot


def save(figure: Any, path: Path) -> None:
    """Write a figure as a PNG with a palette.

    Args:
        figure: matplotlib's.
        path: the file; its folder is made where it is not there.
    """
    from PIL import Image

    whole = io.BytesIO()
    figure.savefig(whole, dpi=DPI, format="png")
    few = (
        Image.open(whole)
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    few.save(path, optimize=True)
