"""The start form on a host with GPUs. They are a stand-in NVML's; the server, the kernels and the ranks are real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lab import jupyterlab
from nvml import H200_BYTES, FakeGpu, build_nvml
from panel import PANEL, START_MS, axe_findings, show_panel

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

PARTS = [f"MIG-7b6c11aa-0000-0000-0000-{part:012d}" for part in (1, 2)]
GPUS = [
    FakeGpu("GPU-0aaaaaaa", memory_used_bytes=97 * 2**30),
    *(FakeGpu(f"GPU-{index}aaaaaaa", memory_used_bytes=H200_BYTES // 2) for index in range(1, 5)),
    FakeGpu("GPU-5aaaaaaa", memory_total_bytes=None, busy_pct=None),
    FakeGpu("GPU-6aaaaaaa", name="NVIDIA RTX 6000 Ada Generation", memory_total_bytes=48 * 2**30),
    FakeGpu("GPU-7aaaaaaa", migs=(PARTS[0], "", PARTS[1])),
]
SHOWN = [
    "0 H200|43.5 of 141 GiB free",
    *(f"{index} H200|70 of 141 GiB free" for index in range(1, 5)),
    "5 H200|",
    "6 RTX 6000 Ada Generation|47.5 of 48 GiB free",
    "7 H200 MIG 1g.18gb|16.5 of 18 GiB free",
    "7 H200 MIG 1g.18gb|16.5 of 18 GiB free",
]
TAKEN = "InvalidInput: Clusters must not share a GPU. Received: GPU 1 is used by the cluster 'default' of pid "


@pytest.mark.slow
def test_devices_are_chosen_in_the_form(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    # TensorFlow would look for the GPUs with CUDA, and the ranks need none to be started.
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no such library')\n")
    more = {"LD_LIBRARY_PATH": build_nvml(tmp_path, GPUS)["LD_LIBRARY_PATH"], "PYTHONPATH": str(tmp_path)}
    with jupyterlab(tmp_path, more=more) as lab:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        for name in ("a.ipynb", "b.ipynb"):
            lab.write(name, "1")
        lab.open(page, "a.ipynb")
        lab.wait_until_idle(page)
        panel = show_panel(page)
        devices = panel.locator(".ddl-devices label")
        devices.nth(len(SHOWN) - 1).wait_for(timeout=30_000)
        told = "labels => labels.map(label => [...label.querySelectorAll('span')].map(s => s.textContent).join('|'))"
        assert devices.evaluate_all(told) == SHOWN
        # Whatever its name, a device's memory is in sight.
        assert not page.locator(".ddl-ranks-section").evaluate("panel => panel.scrollWidth > panel.clientWidth")
        assert axe_findings(page, PANEL) == []
        ranks = panel.get_by_label("Ranks", exact=True).and_(page.locator("input"))
        line, fault = panel.locator(".ddl-start-line"), panel.locator("#ddl-fault-ranks")
        ranks.fill("10")
        assert fault.inner_text() == "Ranks must not outnumber GPUs. Write 9 or less, or let ranks share a GPU."
        for at in (2, 3, 4, 5, 6, 8):
            devices.nth(at).uncheck()
        ranks.fill("")
        assert line.inner_text() == f"%ddl start --gpus 0,1,{PARTS[0]}"
        devices.nth(7).uncheck()
        ranks.fill("3")
        assert fault.inner_text() == "Ranks must not outnumber GPUs. Write 2 or less, or let ranks share a GPU."
        panel.get_by_label("let ranks share a GPU").check()
        assert line.inner_text() == "%ddl start -n 3 --gpus 0,1 --oversubscribe"
        panel.get_by_label("let ranks share a GPU").uncheck()
        ranks.fill("2")
        panel.get_by_role("button", name="Start ranks").click()
        panel.locator(".ddl-cluster-idle").wait_for(timeout=START_MS)
        places = panel.locator(".ddl-rank-row:not([hidden]) .ddl-rank-place").all_inner_texts()
        assert [place.partition(" (")[0] for place in places] == ["GPU 0", "GPU 1"]
        # Another notebook's ranks on one of the two.
        lab.open(page, "b.ipynb")
        lab.wait_until_idle(page)
        show_panel(page)
        devices.nth(8).wait_for(timeout=30_000)
        for at in (0, *range(2, 9)):
            devices.nth(at).uncheck()
        ranks.fill("1")
        panel.get_by_label("Name").fill("second")
        panel.get_by_role("button", name="Start ranks").click()
        panel.locator(".ddl-section-content > .ddl-fault-box").filter(has_text=TAKEN).wait_for(timeout=30_000)
        # It stays until it is dismissed, or another notebook is in front.
        panel.get_by_role("button", name="Dismiss").click()
        panel.locator(".ddl-section-content > .ddl-fault-box").wait_for(state="hidden")
        page.close()
