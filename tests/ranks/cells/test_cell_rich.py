"""Figures, tables and displays of ranks, under a notebook's cell."""

import base64

import pytest

pytestmark = pytest.mark.mpi


def test_a_figure_of_each_rank_shows(notebook):
    cell = notebook.run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([rank, 2]);"
    )
    assert cell.error is None
    images = [output.data["image/png"] for output in cell.outputs if "image/png" in output.data]
    assert len(images) == 2
    assert len(set(images)) == 2
    assert all(base64.b64decode(image).startswith(b"\x89PNG") for image in images)
    assert sorted(line for line in cell.lines if line.startswith("[")) == ["[0]", "[1]"]


def test_the_same_figure_shows_once(notebook):
    cell = notebook.run("from matplotlib.figure import Figure\nFigure((1, 1)).subplots().figure")
    assert sum("image/png" in output.data for output in cell.outputs) == 1
    assert "[0-1]" in cell.lines


def test_a_table_keeps_its_html_and_its_text(notebook):
    cell = notebook.run(
        "class Table:\n"
        "    def __repr__(self): return f'table {rank}'\n"
        "    def _repr_html_(self): return f'<table><tr><td>{rank}</td></tr></table>'\n"
        "Table()"
    )
    rich = [output.data for output in cell.outputs if "text/html" in output.data]
    assert sorted(data["text/html"] for data in rich) == [f"<table><tr><td>{rank}</td></tr></table>" for rank in (0, 1)]
    assert sorted(data["text/plain"] for data in rich) == ["table 0", "table 1"]


def test_display_objects(notebook):
    cell = notebook.run(
        "from IPython.display import HTML, JSON, Latex, Markdown, display\n"
        "display(Markdown('**bold**'), HTML('<b>b</b>'), Latex('$x$'), JSON({'a': 1}))"
    )
    shown = {mime for output in cell.outputs for mime in output.data}
    assert {"text/markdown", "text/html", "text/latex", "application/json"} <= shown
    # Both ranks said the same.
    assert sum("text/markdown" in output.data for output in cell.outputs) == 1


def test_a_display_is_updated_where_it_stands(notebook):
    cell = notebook.run(
        "from IPython.display import HTML, display\n"
        "handle = display(HTML('<i>first</i>'), display_id=True)\n"
        "print('after')\n"
        "handle.update(HTML(f'<i>second {rank}</i>'))"
    )
    html = [output.data.get("text/html") for output in cell.outputs if "text/html" in output.data]
    assert sorted(html) == ["<i>second 0</i>", "<i>second 1</i>"]


def test_a_later_cell_updates_an_earlier_ones_display(notebook):
    first = notebook.run("from IPython.display import HTML, display\nh = display(HTML('<i>1</i>'), display_id=True)")
    later = notebook.run("h.update(HTML('<i>2</i>'))")
    assert [output.data["text/html"] for output in first.outputs if "text/html" in output.data] == ["<i>2</i>"] * 2
    assert later.error is None
    assert later.text.strip() == ""


def test_clear_output(notebook):
    cell = notebook.run("from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('stays')")
    assert cell.lines == ["[0-1] stays"]


def test_clear_output_that_waits(notebook):
    cell = notebook.run(
        "from IPython.display import clear_output\n"
        "for step in range(5):\n    clear_output(wait=True)\n    print('step', step)"
    )
    assert cell.lines == ["[0-1] step 4"]


def test_text_comes_before_the_display_that_follows_it(notebook):
    cell = notebook.run(
        "from IPython.display import HTML, display\nprint('before')\ndisplay(HTML('<b>mid</b>'))\nprint('after')"
    )
    kinds = ["html" if "text/html" in output.data else output.data["text/plain"] for output in cell.outputs]
    assert kinds == ["[0-1] before\n[0-1]", "html", "[0-1] after"]


def test_a_widget_shows_as_text_and_not_as_an_error(notebook):
    cell = notebook.run("import ipywidgets\nipywidgets.IntSlider(value=3)")
    assert cell.error is None
    assert not any("widget" in mime for output in cell.outputs for mime in output.data)
    assert "IntSlider(value=3)" in cell.text


def test_only_messages_that_every_front_end_knows(notebook):
    cell = notebook.run(
        "from IPython.display import HTML, display\nimport sys\n"
        "print('out'); print('err', file=sys.stderr)\ndisplay(HTML('<b>b</b>'))\nrank"
    )
    assert cell.kinds <= {"status", "execute_input", "display_data", "update_display_data"}
    assert all("text/plain" in output.data for output in cell.outputs)


@pytest.mark.parametrize("code", ["len?", "%pinfo len"])
def test_help_shows(notebook, code):
    cell = notebook.run(code)
    assert "Return the number of items in a container." in cell.text
    assert "\x1b" not in cell.text
