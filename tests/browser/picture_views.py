"""The views that `pictures.py` takes: each function brings a page of JupyterLab to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab import command
from panel import ask_kernel, leave_out_tensorflow, run_cell, show_panel, start_here
from told_kernel import rank

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Lab
    from playwright.sync_api import Page
    from told_kernel import ToldKernel

KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
PAGE = ".jp-MainAreaWidget:not(.lm-mod-hidden) .ddl-page"
HUNG = """%%distributed
import time
def load_shard():
    time.sleep(1e6)
def wait_for_peers():
    time.sleep(1e6)
wait_for_peers() if rank == 0 else load_shard()"""

# The picture of what a reader sees first; one of its cells trains, one fails.
TRAINS, RAISES = 1, 2
CELLS = (
    "%load_ext jupyter_ddl\n%ddl start -n 2",
    """%%distributed
import keras, jupyter_ddl.keras as hvd
from sklearn.datasets import load_digits

hvd.init()
x, y = load_digits(return_X_y=True)
model = keras.Sequential([keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * world_size)),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
print("training on shard", rank, "of", world_size)
model.fit(x[rank::world_size] / 16, y[rank::world_size], epochs=3, verbose=2 if rank == 0 else 0,
          callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
print("weights", hvd.check_in_sync(model))""",
    """%%distributed
if rank == 1:
    raise ValueError("no such file on this rank")
hvd.allreduce(1.0)""",
    "%%distributed\nhvd.allreduce(float(rank), op=hvd.Sum)",
)


@dataclass
class Scene:
    """What a view is made from: a page whose notebook has a kernel, and runs that are on disk."""

    lab: Lab
    page: Page
    runs: dict[str, Path]
    folder: Path
    told: ToldKernel


def training(scene: Scene) -> None:
    """Ranks of two hosts during a run; the run's page is in front."""
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
# Of the views, those that say what a kernel's ranks do.
TOLD = ("training", "64")
