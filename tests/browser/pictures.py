"""Pictures of every view, at each size and in both themes, to be compared by eye. Run by `make pictures`.

Runs and clusters are recorded ones; ranks that are stopped in a cell, and those of the picture of cells, are real. What
the documentation shows is written into docs/images too, in both themes, with as few colours as it needs: NAME-light.png
and NAME-dark.png. Its charts are drawn of what was measured, which the documentation keeps. docs/images/flow.svg alone
is drawn by hand, and follows the reader's theme by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]

import nbformat  # noqa: E402
import recorded  # noqa: E402
from lab import chromium, command, jupyterlab, set_theme  # noqa: E402
from picture_views import CELLS, KERNEL, PAGE, RAISES, TOLD, TRAINS, VIEWS, Scene  # noqa: E402
from PIL import Image  # noqa: E402
from told_kernel import ToldKernel  # noqa: E402

from benchmarks import convergence, machine_learning  # noqa: E402
from jupyter_ddl import paths  # noqa: E402
from jupyter_ddl.runs.labels import rename  # noqa: E402

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Browser, Locator, Page

DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
THEMES = ("light", "dark")


class Size(NamedTuple):
    """A window, in pixels of the page, and the scale at which it is drawn."""

    name: str
    width: int
    height: int
    scale: float = 1.0


KEPT = Size("1440x900", 1440, 900)
# At 150 % the page of a screen of 1440x900 has two thirds of its pixels.
SIZES = (Size("1024x700", 1024, 700), KEPT, Size("150", 960, 600, 1.5))
# View -> its name in docs/images, where the documentation shows it: at the size KEPT.
IN_DOCS = {
    "training": "panel-train",
    "start": "panel-start",
    "stacks": "panel-stacks",
    "compare": "panel-compare",
    "log": "panel-log",
    "64": "panel-64",
}
# The runs whose dashboards the documentation shows, by their number of ranks, as wide as a cell's output.
DASHBOARDS = ("8", "64", "1024")
# Higher than any dashboard, and than the cells: what is out of sight is not in a picture of it.
DASHBOARD = Size("dashboard", 1180, 1900)
# What is no view: cells with real ranks that train, whole dashboards, charts.
OTHERS = ("cells", "dashboards", "charts")
COLOURS = 255
SELECT_CELL = "at => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = at; }"
# Run -> the number of its cell, where that is known, and what its user calls it.
LABELS = {
    "eight": (None, "baseline"),
    "slower": (None, "half the ranks"),
    "slowest": (None, "a quarter"),
    "failed": (7, ""),
    "live": (9, ""),
}


def record_runs() -> dict[str, Path]:
    """Write the runs that the views show."""
    day = "2026-11-2"
    runs = {
        "eight": recorded.record(f"{day}5T09-12-40-default-3f9c", 8, 60),
        "slower": recorded.record(f"{day}5T10-02-11-default-81d0", 4, 60, slower=1.3),
        "slowest": recorded.record(f"{day}4T16-45-02-default-77aa", 2, 60, slower=1.9),
        "failed": recorded.record(f"{day}4T17-20-31-default-0b52", 8, 25, fails=True),
        "live": recorded.record(f"{day}6T08-55-00-default-c0de", 8, 40, over=False),
        "8": recorded.record(f"{day}2T02-00-00-default-3f98", 8, 70, over=False),
        "64": recorded.record(f"{day}2T02-00-00-default-6464", 64, 40, over=False),
        "1024": recorded.record(f"{day}2T02-00-00-default-1024", 1024, 40, over=False),
    }
    for run, (number, name) in LABELS.items():
        rename(runs[run], name)
        if number is not None:
            file = runs[run] / "run.json"
            cell = {"notebook": "/home/ada/train.ipynb", "cell_number": number}
            file.write_text(json.dumps(json.loads(file.read_text()) | cell))
    return runs


def take(out: Path, chosen: list[str], sizes: list[Size]) -> None:
    """Take the pictures: out/VIEW-SIZE-THEME.png, and docs/images of those that the documentation shows.

    Args:
        out: a folder, made where it is not there.
        chosen: names of VIEWS and OTHERS.
        sizes: of SIZES, for the views.
    """
    out.mkdir(parents=True, exist_ok=True)
    if "charts" in chosen:
        draw_charts()
    with tempfile.TemporaryDirectory(prefix="ddl-pictures-") as name, chromium(has_scroll_bars=True) as browser:
        folder = Path(name)
        for variable in (paths.RUNS_VARIABLE, paths.RUNTIME_VARIABLE):
            (folder / variable).mkdir(mode=0o700)
            os.environ[variable] = str(folder / variable)
        with jupyterlab(folder) as lab:
            # The runs of its cells are no part of the views' lists.
            if "cells" in chosen:
                _take_cells(out, lab, browser)
            runs = record_runs()
            for size in sizes:
                for view in VIEWS:
                    if view in chosen:
                        _take_view(out, lab, browser, size, view, runs, folder)
            if "dashboards" in chosen:
                _take_dashboards(out, lab, browser, runs)


def draw_charts() -> None:
    """Draw the documentation's charts of the figures that it keeps."""
    convergence.draw(json.loads((DOCS / "auto-convergence.json").read_text()), IMAGES)
    machine_learning.draw(machine_learning.outcomes_of((DOCS / "ml.md").read_text()), IMAGES)


def _take_view(
    out: Path, lab: Lab, browser: Browser, size: Size, view: str, runs: dict[str, Path], folder: Path
) -> None:
    viewport = {"width": size.width, "height": size.height}
    context = browser.new_context(viewport=viewport, device_scale_factor=size.scale)  # type: ignore[arg-type]
    page = context.new_page()
    lab.write(f"{view}.ipynb", "1")
    lab.open(page, f"{view}.ipynb", workspace=size.name)
    lab.wait_until_idle(page)
    with ToldKernel(lab, page.evaluate(KERNEL) if view in TOLD else "elsewhere") as told:
        VIEWS[view](Scene(lab, page, runs, folder, told))
        kept = IN_DOCS.get(view) if size == KEPT else None
        _take_both(page, page, out / f"{view}-{size.name}", kept)
    lab.interrupt_kernels()
    context.close()
    lab.end_kernels()


def _take_dashboards(out: Path, lab: Lab, browser: Browser, runs: dict[str, Path]) -> None:
    """Take the dashboards of runs of several sizes, whole."""
    page = browser.new_page(viewport={"width": DASHBOARD.width, "height": DASHBOARD.height})
    lab.write("dashboard.ipynb", "1")
    lab.open(page, "dashboard.ipynb")
    for run in DASHBOARDS:
        command(page, "jupyter-ddl:open-run", run=runs[run].name)
        page.locator(f"{PAGE} .ddl-value").first.wait_for()
        page.wait_for_timeout(1500)
        _take_both(page, page.locator(f"{PAGE} .ddl-dashboard"), out / f"dashboard-{run}", f"dashboard-{run}")
    page.close()
    lab.end_kernels()


def _take_cells(out: Path, lab: Lab, browser: Browser) -> None:
    """Take a notebook whose cells train on two real ranks, fail on one of them, and run again."""
    page = browser.new_page(viewport={"width": DASHBOARD.width, "height": DASHBOARD.height})
    lab.write("cells.ipynb", *CELLS)
    lab.open(page, "cells.ipynb")
    command(page, "application:toggle-left-area")
    for cell in range(len(CELLS)):
        lab.wait_until_idle(page)
        page.evaluate(SELECT_CELL, cell)
        # A cell that raises must not keep the next from running, as it would where all are run.
        page.evaluate("window.jupyterapp.commands.execute('notebook:run-cell').then(() => null)")
        lab.wait_until_ended(page)
        if cell == TRAINS:
            # Of the dashboard what matters is at its top; its own picture has all of it.
            command(page, "notebook:enable-output-scrolling")
    page.evaluate(SELECT_CELL, 0)
    lab.save(page)
    outputs = [cell.outputs for cell in nbformat.read(lab.folder / "cells.ipynb", as_version=4).cells]
    failed = [at for at, those in enumerate(outputs) if any(output.output_type == "error" for output in those)]
    assert failed == [RAISES], outputs
    _take_both(page, page.locator(".jp-WindowedPanel-viewport"), out / "cells", "cells")
    page.close()
    lab.end_kernels()


def _take_both(page: Page, of: Page | Locator, out: Path, kept: str | None) -> None:
    """Take a picture in both themes.

    Args:
        page: whose theme is set; it is light afterwards.
        of: the page, or an element of it.
        out: the pictures' files, without -THEME.png.
        kept: their name in docs/images, or None.
    """
    for theme in THEMES:
        set_theme(page, dark=theme == "dark")
        # Charts are drawn in the next frames.
        page.wait_for_timeout(500)
        taken = out.with_name(f"{out.name}-{theme}.png")
        of.screenshot(path=taken)
        if kept is not None:
            _keep(taken, IMAGES / f"{kept}-{theme}.png")
    set_theme(page, dark=False)


def _keep(taken: Path, kept: Path) -> None:
    """Write a picture into the docs with a palette."""
    with Image.open(taken) as picture:
        whole = picture.convert("RGB")
    # Colours of small marks are among them, and those of large areas are exact.
    few = whole.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(kept, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--views", nargs="*", default=[*VIEWS, *OTHERS], choices=[*VIEWS, *OTHERS])
    parser.add_argument("--sizes", nargs="*", default=[size.name for size in SIZES])
    given = parser.parse_args()
    take(given.out, given.views, [size for size in SIZES if size.name in given.sizes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
