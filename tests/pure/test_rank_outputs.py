"""What the hub answers of one rank's output: its own events, in order, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import OutputChunk, OutputCleared, RankFailed, RankFinished, RichOutput
from jupyter_ddl.server.rank_outputs import page_of_outputs

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event


def written(folder: Path, *events: Event) -> bytes:
    data = b"".join(as_line(event) for event in events)
    (folder / "rank-1.events.jsonl").write_bytes(data)
    return data


def outputs(folder: Path, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page_of_outputs(folder, 1, 0, **more)["outputs"]
    return found


def test_text_figures_and_the_error_come_in_order(tmp_path: Path) -> None:
    figure = {"text/html": "<b>1</b>", "text/plain": "1"}
    data = written(
        tmp_path,
        OutputChunk("r", 1, "stdout", "a"),
        OutputChunk("r", 1, "stdout", "b\n"),
        OutputChunk("r", 1, "stderr", "c\n", skipped_bytes=2000),
        RichOutput("r", 1, "display", figure, {"isolated": True}, "d"),
        OutputCleared("r", 1, wait=True),
        RichOutput("r", 1, "result", {"text/plain": float("nan")}),
        RankFailed("r", 1, "h", "ValueError", "no", ("line",), released=False, at_s=0.0),
    )
    assert page_of_outputs(tmp_path, 1, 0) == {
        "next": len(data),
        "outputs": [
            {"type": "stream", "name": "stdout", "text": "ab\n"},
            {"type": "stream", "name": "stderr", "text": "\n… 2,000 bytes are only in the log of rank 1\nc\n"},
            {"type": "display", "data": figure, "metadata": {"isolated": True}, "display_id": "d"},
            {"type": "clear", "wait": True},
            {"type": "result", "data": {"text/plain": "NaN"}, "metadata": {}, "display_id": None},
            {"type": "error", "name": "ValueError", "message": "no", "traceback": ["line"]},
        ],
    }
    assert page_of_outputs(tmp_path, 1, len(data)) == {"next": len(data), "outputs": []}


def test_pages_end_between_events_and_one_that_is_longer_than_a_page_is_whole(tmp_path: Path) -> None:
    data = written(tmp_path, *(OutputChunk("r", 1, "stdout", f"{number}" * 200) for number in range(5)))
    (tmp_path / "rank-1.events.jsonl").write_bytes(data + b'{"type":"output","run":"r"')
    after, texts = 0, []
    while (page := page_of_outputs(tmp_path, 1, after, 100))["next"] > after:
        after = page["next"]
        texts += [output["text"] for output in page["outputs"]]
    assert texts == [f"{number}" * 200 for number in range(5)]
    assert after == len(data)


def test_a_rank_without_a_file_a_link_and_a_widget_have_nothing(tmp_path: Path) -> None:
    assert page_of_outputs(tmp_path, 1, 7) == {"next": 7, "outputs": []}
    widget = {"application/vnd.jupyter.widget-view+json": {}}
    finished = RankFinished("r", 1, "h", 1.0)
    written(
        tmp_path, RichOutput("r", 1, "display", widget), RichOutput("r", 1, "display", {**widget, "a/b": "c"}), finished
    )
    assert [output["data"] for output in outputs(tmp_path)] == [{"a/b": "c"}]
    (tmp_path / "rank-1.events.jsonl").rename(tmp_path / "other")
    (tmp_path / "rank-1.events.jsonl").symlink_to(tmp_path / "other")
    assert outputs(tmp_path) == []
