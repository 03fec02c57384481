"""Pictures of every view, at each size and in both themes, to be compared by eye. Run by `make pictures`.

Runs and clusters are recorded ones; ranks that are stopped in a cell are real. Those that `IN_DOCS` names, at the size
`KEPT`, are written into the docs too, with as few colours as they need.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import recorded  # noqa: E402
from lab import chromium, command, jupyterlab, set_theme  # noqa: E402
from panel import ask_kernel, leave_out_tensorflow, run_cell, show_panel, start_here  # noqa: E402
from PIL import Image  # noqa: E402
from told_kernel import ToldKernel, rank  # noqa: E402

from jupyter_ddl import paths  # noqa: E402
from jupyter_ddl.runs.labels import rename  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab import Lab
    from playwright.sync_api import Browser, Page

DOCS = HERE.parents[1] / "docs"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
PAGE = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
HUNG = """%%distributed
import time
def load_shard():
    time.sleep(1e6)
def wait_for_peers():
    time.sleep(1e6)
wait_for_peers() if rank == 0 else load_shard()"""


class Size(NamedTuple):
    """A window, in pixels of the page, and the scale at which it is drawn."""

    name: str
    width: int
    height: int
    scale: float = 1.0


KEPT = Size("1440x900", 1440, 900)
# At 150 % the page of a screen of 1440x900 has two thirds of its pixels.
SIZES = (Size("1024x700", 1024, 700), KEPT, Size("150", 960, 600, 1.5))


@dataclass
class Scene:
    """What a view is made from: a page whose notebook has a kernel, and runs that are on disk."""

    lab: Lab
    page: Page
    runs: dict[str, Path]
    folder: Path
    told: ToldKernel


def training(scene: Scene) -> None:
    """Ranks of two hosts while a run goes on; the run's page is in front."""
    page, live = scene.page, scene.runs["live"].name
    scene.lab.set_code(page, "%%distributed\nmodel.fit(x, y, batch_size=128, epochs=12)")
    show_panel(page, more=False)
    ranks = [rank(at, state="running", host=f"node{7 + at // 4}") for at in range(8)]
    scene.told.tell(ranks, state="running", run=live)
    scene.told.notice(live)
    run_page(scene, "live")


def start_form(scene: Scene) -> None:
    show_panel(scene.page)


def first_minute(scene: Scene) -> None:
    """A cell that wants ranks where there are none."""
    page = scene.page
    show_panel(page, more=False)
    scene.lab.set_code(page, "%%distributed\nprint('rank', rank, 'of', world_size)")
    run_cell(page)
    page.get_by_role("button", name="Start ranks and run the cell").wait_for(timeout=60_000)


def run_page(scene: Scene, name: str = "eight") -> None:
    show_panel(scene.page, more=False)
    command(scene.page, "jupyter-ddl:open-run", run=scene.runs[name].name)
    scene.page.locator(f"{PAGE} .ddl-value").first.wait_for()


def many_ranks(scene: Scene) -> None:
    """Training on 64 ranks."""
    show_panel(scene.page, more=False)
    live = scene.runs["64"].name
    ranks = [rank(at, state="running", host=f"node{at // 8}") for at in range(64)]
    scene.told.tell(ranks, state="running", run=live)
    scene.told.notice(live)
    run_page(scene, "64")


def failed_run(scene: Scene) -> None:
    run_page(scene, "failed")


def compared(scene: Scene) -> None:
    show_panel(scene.page, more=False)
    names = [scene.runs[name].name for name in ("eight", "slower", "slowest")]
    scene.page.evaluate(
        "runs => window.jupyterapp.commands.execute('jupyter-ddl:compare-runs', { runs }).then(() => null)", names
    )
    scene.page.locator(f"{PAGE} canvas").first.wait_for()


def whole_log(scene: Scene) -> None:
    show_panel(scene.page, more=False)
    command(scene.page, "jupyter-ddl:open-log", run=scene.runs["eight"].name)
    scene.page.locator(f"{PAGE} .ddl-line").first.wait_for()


def stacks(scene: Scene) -> None:
    """Ranks that are stopped in a cell, at different places."""
    page, lab = scene.page, scene.lab
    leave_out_tensorflow(page, scene.folder)
    ask_kernel(page, "%load_ext jupyter_ddl")
    panel = start_here(lab, page)
    lab.set_code(page, HUNG)
    run_cell(page)
    panel.locator(".ddl-cluster-running").wait_for()
    command(page, "jupyter-ddl:stacks-of", kernel=page.evaluate(KERNEL))
    page.locator(PAGE).get_by_text("load_shard").first.wait_for()


def all_clusters(scene: Scene) -> None:
    """Real ranks that wait for a cell."""
    page, lab = scene.page, scene.lab
    leave_out_tensorflow(page, scene.folder)
    ask_kernel(page, "%load_ext jupyter_ddl")
    start_here(lab, page)
    command(page, "jupyter-ddl:all-clusters")
    page.locator(f"{PAGE} tbody tr").first.wait_for()


VIEWS: dict[str, Callable[[Scene], None]] = {
    "start": start_form,
    "first-minute": first_minute,
    "training": training,
    "run": run_page,
    "failed": failed_run,
    "compare": compared,
    "log": whole_log,
    "stacks": stacks,
    "clusters": all_clusters,
    "64": many_ranks,
}
# View and theme -> the picture in docs/images.
IN_DOCS = {
    "training-light": "panel-train-light",
    "start-light": "panel-start-light",
    "stacks-dark": "panel-stacks-dark",
    "compare-light": "panel-compare-light",
    "log-light": "panel-log-light",
    "64-dark": "panel-64-dark",
}
# Of the views, those that say what a kernel's ranks do.
TOLD = ("training", "64")
# Run and theme -> the picture of its dashboard in docs, as wide as a cell's output.
DASHBOARDS = {"8": "dashboard-8-light", "64": "dashboard-64-dark", "1024": "dashboard-1024-light"}
# Higher than any dashboard: what is out of sight is not in a picture of it.
DASHBOARD = Size("dashboard", 1180, 1900)
COLOURS = 255
# Run -> the number of its cell, where that is known, and what its user calls it.
CELLS = {
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
    for run, (number, name) in CELLS.items():
        rename(runs[run], name)
        if number is not None:
            file = runs[run] / "run.json"
            cell = {"notebook": "/home/ada/train.ipynb", "cell_number": number}
            file.write_text(json.dumps(json.loads(file.read_text()) | cell))
    return runs


def take(out: Path, chosen: list[str], sizes: list[Size]) -> None:
    """Take the pictures: out/VIEW-SIZE-THEME.png.

    Args:
        out: a folder, made where it is not there.
        chosen: names of VIEWS.
        sizes: of SIZES.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ddl-pictures-") as name, chromium(has_scroll_bars=True) as browser:
        folder = Path(name)
        for variable in (paths.RUNS_VARIABLE, paths.RUNTIME_VARIABLE):
            (folder / variable).mkdir(mode=0o700)
            os.environ[variable] = str(folder / variable)
        runs = record_runs()
        with jupyterlab(folder) as lab:
            for size in sizes:
                for view in chosen:
                    _take_one(out, lab, browser, size, view, runs, folder)
            if KEPT in sizes:
                for name, picture in IN_DOCS.items():
                    if name.rpartition("-")[0] in chosen:
                        shot, _, theme = name.rpartition("-")
                        _keep(out / f"{shot}-{KEPT.name}-{theme}.png", DOCS / "images" / f"{picture}.png")
                if "run" in chosen:
                    _take_dashboards(out, lab, browser, runs)


def _take_one(
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
        for dark in (False, True):
            set_theme(page, dark=dark)
            # Charts are drawn in the next frames.
            page.wait_for_timeout(500)
            page.screenshot(path=out / f"{view}-{size.name}-{'dark' if dark else 'light'}.png")
    set_theme(page, dark=False)
    lab.interrupt_kernels()
    context.close()
    lab.end_kernels()


def _take_dashboards(out: Path, lab: Lab, browser: Browser, runs: dict[str, Path]) -> None:
    """Take the dashboards of runs of several sizes, whole."""
    page = browser.new_page(viewport={"width": DASHBOARD.width, "height": DASHBOARD.height})
    lab.write("dashboard.ipynb", "1")
    lab.open(page, "dashboard.ipynb")
    for run, picture in DASHBOARDS.items():
        set_theme(page, dark=picture.endswith("dark"))
        command(page, "jupyter-ddl:open-run", run=runs[run].name)
        page.locator(f"{PAGE} .ddl-value").first.wait_for()
        page.wait_for_timeout(1500)
        page.locator(f"{PAGE} .ddl-dashboard").screenshot(path=out / f"{picture}.png")
        _keep(out / f"{picture}.png", DOCS / f"{picture}.png")
    set_theme(page, dark=False)
    page.close()
    lab.end_kernels()


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
    parser.add_argument("--views", nargs="*", default=list(VIEWS), choices=VIEWS)
    parser.add_argument("--sizes", nargs="*", default=[size.name for size in SIZES])
    given = parser.parse_args()
    take(given.out, given.views, [size for size in SIZES if size.name in given.sizes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
