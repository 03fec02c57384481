"""Graphics stand out from their background, and the parts of a step from each other, by luminance too.

Not the strip of ranks: its colours are a scale, from dark to light, and the figure of a cell is read in words.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

from jupyter_ddl.views import picture, sweep_page

STYLE = (Path(__file__).parents[2] / "labextension/src/dashboard.css").read_text()
COLOUR = re.compile(r"--ddl-(compute|exchange|input|line-\d|state-\w+): (#[0-9a-f]{3,6});")
LIGHT, DARK = (
    dict(COLOUR.findall(STYLE[STYLE.index(start) :].partition("}")[0]))
    for start in (":is(.ddl-dashboard, .ddl-panel) {", ":is(.ddl-dashboard, .ddl-panel).ddl-dark {")
)
# JupyterLab's --jp-layout-color0 and -color1, on which dashboards and the panel stand.
BACKGROUNDS = {"light": ("#ffffff",), "dark": ("#111111", "#212121")}
# WCAG 2.1, success criterion 1.4.11.
LEAST = 3.0
# All three parts of a step are to be told apart in grey; those of which one is the other's cost, at a glance.
APART = {("compute", "exchange"): LEAST}
LEAST_APART = 1.5


def luminance(colour: str) -> float:
    """Return the relative luminance. Source: WCAG 2.1, "relative luminance"."""
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio. Source: WCAG 2.1, "contrast ratio"."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_graphics_stand_out_from_the_background(theme: str, colours: dict[str, str]) -> None:
    assert len(colours) == 18
    for name, colour in colours.items():
        for background in BACKGROUNDS[theme]:
            assert contrast(colour, background) >= LEAST, f"{name} on {background}"


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_parts_of_a_step_differ_in_grey(colours: dict[str, str]) -> None:
    for pair in combinations(("compute", "exchange", "input"), 2):
        one, other = (colours[name] for name in pair)
        assert contrast(one, other) >= APART.get(pair, LEAST_APART), pair


def test_saved_pictures_have_the_colours_of_the_page() -> None:
    parts = (picture._COMPUTE, picture._EXCHANGE, picture._INPUT)
    assert parts == tuple(LIGHT[name] for name in ("compute", "exchange", "input"))
    for colour in (*(colour for _, colour in picture._STATES.values()), *sweep_page._COLOURS):
        assert contrast(colour, "#ffffff") >= LEAST, colour
