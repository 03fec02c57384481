"""TensorBoard below a Jupyter server: who can read it, on what it listens, and when it ends."""

from __future__ import annotations

import gzip
import http.cookies
import json
import logging
import os
import signal
import socket
import stat
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loops
import psutil
import pytest
from run_folders import make_run, own_session, write_events
from servers import TOKEN, Notebook, Server
from users import STRANGER, as_user, needs_root

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.events import MetricsSample, RunFinished
from jupyter_ddl.protocol.hub_messages import BoardAsked
from jupyter_ddl.server import boards
from jupyter_ddl.tensorboard.event_files import EventFiles

pytest.importorskip("tensorboard")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import Reply

HUB = "--ServerApp.jpserver_extensions={'jupyter_ddl.server': True}"
BASE_URL = "/user/x/"
BOARDS = f"{BASE_URL}jupyter-ddl/boards"
PROGRAM = "jupyter_ddl.tensorboard.program"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("boards")
    with Server(folder, HUB, base_url=BASE_URL, variables={"JUPYTER_DDL_RUNS": str(folder / "runs")}) as running:
        yield running


def logs_in(folder: Path, *, value: float = 0.5) -> Path:
    files = EventFiles(folder)
    for step in range(3):
        files.add("train", 1_700_000_000.0 + step, step, {"loss": value / (step + 1)})
    files.flush()
    return folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logs_in(tmp_path_factory.mktemp("logs"))


def opened(server: Server, logs: Path) -> str:
    reply = server.request("POST", f"{server.base_url}jupyter-ddl/boards", body=json.dumps({"folder": str(logs)}))
    assert reply.status == 200, reply
    path: str = reply.json["path"]
    return path


def processes(server: Server) -> list[psutil.Process]:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [one for one in children if PROGRAM in one.cmdline()]


def waited(found: Callable[[], Any], timeout_s: float = 60) -> Any:
    until_s = time.monotonic() + timeout_s
    while not (answer := found()):
        assert time.monotonic() < until_s
        time.sleep(0.1)
    return answer


def has_ended(process: psutil.Process) -> bool:
    """Whether a process is gone with all its threads, though it may not have been waited for."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE and len(process.threads()) == 1
    except psutil.NoSuchProcess:
        return True


def header(reply: Reply, name: str) -> list[str]:
    return [value for one, value in reply.headers if one.lower() == name.lower()]


def test_a_folder_is_shown_below_the_base_url(server: Server, logs: Path) -> None:
    path = opened(server, logs)
    assert path.startswith("/user/x/jupyter-ddl/tensorboard/")
    page = server.request("GET", path)
    assert page.status == 200
    assert header(page, "content-type") == ["text/html; charset=utf-8"]
    assert b"<title>TensorBoard</title>" in page.body
    # TensorBoard's own policy, and the server's.
    policies = header(page, "content-security-policy")
    assert any("script-src" in one for one in policies)
    assert any("frame-ancestors 'self'" in one for one in policies)
    tags = waited(lambda: server.request("GET", f"{path}data/plugin/scalars/tags").json)
    assert list(tags) == ["train"]
    found = server.request("GET", f"{path}data/plugin/scalars/scalars?run=train&tag=loss").json
    assert [(step, value) for _, step, value in found] == [(0, 0.5), (1, 0.25), (2, pytest.approx(1 / 6))]


def test_a_second_open_has_the_board_that_runs(server: Server, logs: Path, tmp_path: Path) -> None:
    path = opened(server, logs)
    before = processes(server)
    (tmp_path / "link").symlink_to(logs)
    assert opened(server, tmp_path / "link") == path
    assert processes(server) == before
    running = server.request("GET", BOARDS).json
    assert [(one["folder"], one["run"]) for one in running] == [(str(logs.resolve()), None)]
    other = opened(server, logs_in(tmp_path / "other"))
    assert other != path
    assert server.request("DELETE", other).status == 204
    assert processes(server) == before
    assert server.request("GET", other).json["message"] == (
        "TensorBoard shows what was opened since the Jupyter server began. "
        f"Received: {other.split('/')[-2]!r}. Open it again: %ddl tensorboard."
    )


def test_each_process_leads_a_group_of_its_own(server: Server, logs: Path) -> None:
    opened(server, logs)
    (process,) = processes(server)
    assert os.getpgid(process.pid) == process.pid != os.getpgid(server.process.pid)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users can enter, as they cannot pytest's own."""
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_it_listens_on_no_port_and_its_socket_is_the_users_alone(open_folder: Path) -> None:
    needs_root()
    # What lies above the socket's folder is open to all: that folder and the socket must suffice.
    folder = open_folder
    (folder / "ddl").mkdir(mode=0o755)
    with Server(folder, HUB, variables={"JUPYTER_DDL_RUNTIME": str(folder / "ddl")}) as server:
        path = opened(server, logs_in(folder / "logs"))
        assert server.request("GET", path).status == 200
        (process,) = processes(server)
        assert all(one.status != psutil.CONN_LISTEN for one in process.net_connections("inet"))
        (own,) = {Path(one.laddr) for one in process.net_connections("unix") if one.laddr}
        assert stat.S_ISSOCK(own.stat().st_mode)
        assert stat.S_IMODE(own.stat().st_mode) == 0o600
        assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700

        def connect() -> str:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(own))
                except OSError as error:
                    return type(error).__name__
                return "connected"

        assert connect() == "connected"
        assert as_user(STRANGER, connect) == "PermissionError"
        # The folders of mode 0700 opened, the socket's own mode holds.
        for closed in (own.parent, own.parent.parent):
            closed.chmod(0o755)
        assert as_user(STRANGER, connect) == "PermissionError"

        def ask() -> int:
            return server.request("GET", path, token=None).status

        assert as_user(STRANGER, ask) == 403


def test_nothing_is_shown_without_the_servers_login(server: Server, logs: Path) -> None:
    path = opened(server, logs)
    for address in (path, f"{path}data/runs", BOARDS):
        assert server.request("GET", address, token=None).status == 403
        assert server.request("GET", address, token="wrong").status == 403
    assert server.request("POST", BOARDS, token=None, body=json.dumps({"folder": str(logs)})).status == 403
    assert server.request("DELETE", path, token=None).status == 403
    assert server.request("GET", f"{path}data/runs").status == 200


def logged_in(server: Server) -> str:
    """Return the cookies of a browser that has logged in."""
    cookies = http.cookies.SimpleCookie[str]()

    def sent() -> str:
        return "; ".join(f"{name}={cookie.value}" for name, cookie in cookies.items())

    for address in ("login", f"login?token={TOKEN}"):
        reply = server.request("GET", f"{server.base_url}{address}", token=None, Cookie=sent())
        for cookie in header(reply, "set-cookie"):
            cookies.load(cookie)
    return sent()


def test_the_pages_own_posts_pass_and_those_of_others_do_not(server: Server, logs: Path) -> None:
    """The page of TensorBoard, which asks for its charts by POST, has a cookie and no XSRF token."""
    path = opened(server, logs)
    waited(lambda: server.request("GET", f"{path}data/runs").json)
    asked = f"{path}data/plugin/timeseries/timeSeries"
    origin = f"http://127.0.0.1:{server.port}"
    form = 'requests=[{"plugin": "scalars", "tag": "loss"}]'
    given = {
        "token": None,
        "body": form,
        "Content_Type": "application/x-www-form-urlencoded",
        "Cookie": logged_in(server),
    }

    def post(**headers: str) -> Reply:
        return server.request("POST", asked, **given, **headers)  # type: ignore[arg-type]

    shown = post(Origin=origin, Referer=f"{origin}{path}")
    assert shown.status == 200, shown
    assert [point["value"] for point in shown.json[0]["runToSeries"]["train"]][:2] == [0.5, 0.25]
    assert post(Origin=origin, Referer=f"{origin}/user/x/lab").status == 403
    assert post().status == 403
    assert post(Origin="https://evil.example", Referer=f"https://evil.example{path}").status in (403, 404)
    assert post(Origin="https://evil.example", Referer=f"{origin}{path}").status == 404
    ended = server.request("DELETE", path, token=None, Cookie=str(given["Cookie"]), Origin="https://evil.example")
    assert ended.status in (403, 404)
    # The page asks, and ends nothing.
    own = {"Origin": origin, "Referer": f"{origin}{path}", "Cookie": str(given["Cookie"])}
    assert server.request("DELETE", path, token=None, **own).status == 403
    opening = server.request(
        "POST", BOARDS, token=None, Cookie=str(given["Cookie"]), body="{}", Referer=f"{origin}{path}"
    )
    assert opening.status == 403


def test_the_authorizer_is_asked(tmp_path: Path) -> None:
    (tmp_path / "denying.py").write_text(
        "from jupyter_server.auth import Authorizer\n"
        "class Reader(Authorizer):\n"
        "    def is_authorized(self, handler, user, action, resource):\n"
        "        return resource != 'jupyter_ddl' or action == 'write'\n"
    )
    python_path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    option = "--ServerApp.authorizer_class=denying.Reader"
    with Server(tmp_path, HUB, option, variables={"PYTHONPATH": python_path}) as server:
        path = opened(server, logs_in(tmp_path / "logs"))
        for method in ("GET", "HEAD", "POST"):
            assert server.request(method, f"{path}data/runs").status == 403


def test_a_page_that_asks_again_by_itself_keeps_no_idle_server(server: Server, logs: Path) -> None:
    path = opened(server, logs)
    before = server.api("GET", "status")["last_activity"]
    assert server.request("GET", f"{path}data/runs").status == 200
    assert server.api("GET", "status")["last_activity"] == before
    opened(server, logs)
    assert server.api("GET", "status")["last_activity"] > before


def test_head_compressed_and_unknown_addresses_pass(server: Server, logs: Path) -> None:
    path = opened(server, logs)
    whole = server.request("GET", f"{path}index.js", Accept_Encoding="identity")
    head = server.request("HEAD", f"{path}index.js", Accept_Encoding="identity")
    assert head.status == 200
    assert head.body == b""
    assert header(head, "content-type") == header(whole, "content-type")
    zipped = server.request("GET", f"{path}index.js", Accept_Encoding="gzip")
    assert header(zipped, "content-encoding") == ["gzip"]
    assert len(whole.body) > 1_000_000
    assert len(zipped.body) < len(whole.body)
    assert gzip.decompress(zipped.body) == whole.body
    assert server.request("GET", f"{path}no/such/page").status == 404
    assert header(server.request("GET", path.rstrip("/")), "location") == [path]


def test_a_large_answer_passes_whole(server: Server, tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    picture = b"\x89PNG\r\n\x1a\n" + os.urandom(8 << 20)
    image = Summary.Image(height=1, width=1, colorspace=3, encoded_image_string=picture)
    with (tmp_path / "events.out.tfevents.1.host").open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1.0, file_version="brain.Event:2").SerializeToString())
        value = Summary.Value(tag="large", image=image)
        writer.write(Event(wall_time=1.0, step=1, summary=Summary(value=[value])).SerializeToString())
    path = opened(server, tmp_path)
    waited(lambda: server.request("GET", f"{path}data/plugin/images/tags").json)
    (found,) = server.request("GET", f"{path}data/plugin/images/images?run=.&tag=large&sample=0").json
    shown = server.request("GET", f"{path}data/plugin/images/individualImage?{found['query']}")
    assert shown.body == picture


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        ("/no/such/folder", "'/no/such/folder', which does not exist. Pass the folder"),
        ("logs", "'logs', which is no absolute path. Pass the whole path."),
        (__file__, f"{__file__!r}, which is no folder. Pass the folder"),
    ],
)
def test_a_folder_that_is_none_is_refused(server: Server, folder: str, what: str) -> None:
    reply = server.request("POST", BOARDS, body=json.dumps({"folder": folder}))
    assert reply.status == 400
    rule = "TensorBoard shows a folder of logs that exists and can be read."
    assert reply.json["message"].startswith(f"{rule} Received: {what}")


@pytest.mark.parametrize("asked", [{}, {"folder": "/tmp", "run": "x"}, {"folder": 1}, [], {"run": None}])
def test_a_board_is_of_a_folder_or_of_a_run(server: Server, asked: Any) -> None:
    reply = server.request("POST", BOARDS, body=json.dumps(asked))
    assert reply.status == 400
    assert reply.json["message"].startswith("A board is of a folder or of a run. Received: something else.")


def test_a_run_that_is_none_is_refused(server: Server) -> None:
    reply = server.request("POST", BOARDS, body=json.dumps({"run": "../x"}))
    assert reply.status == 400
    assert reply.json["message"] == (
        "A run is named by its id. Received: '../x', which is no run. %ddl runs lists them."
    )


def test_what_it_printed_last_is_said_where_it_does_not_start(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "broken" / "tensorboard").mkdir(parents=True)
    (tmp_path / "broken" / "tensorboard" / "__init__.py").write_text("raise ImportError('no such thing')\n")
    python_path = os.pathsep.join(filter(None, [str(tmp_path / "broken"), os.environ.get("PYTHONPATH")]))
    with Server(tmp_path, HUB, variables={"PYTHONPATH": python_path}) as server:
        reply = server.request("GET", opened(server, logs))
        assert reply.status == 502
        assert reply.json["message"].startswith("TensorBoard must answer. Received: ")
        assert "It printed last: " in reply.json["message"]
        assert reply.json["message"].endswith("ImportError: no such thing")


RUN = "2026-11-20T18-03-07-default-3f9c"


def test_a_cell_shows_a_folder_a_run_or_why_not(
    server: Server, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the kernel's cell to the page, by the hub's socket."""
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(server.notebooks.parent / "runs"))
    sample = MetricsSample(RUN, 1, 1_700_000_001.0, 50.0, 2**30, step=10, loss=0.5)
    write_events(make_run(RUN, outcome="finished"), [sample, RunFinished(RUN, "finished", 1.0)])
    with Notebook(server) as notebook:
        notebook.do("%load_ext jupyter_ddl")
        shown = notebook.do(f"%ddl tensorboard {logs}")
        assert shown == f"TensorBoard of {logs}: {opened(server, logs)}"
        shown = notebook.do("%ddl tensorboard")
        path = f"/user/x/jupyter-ddl/tensorboard/{RUN}/"
        assert shown == f"TensorBoard of {RUN}: {path}"
        assert notebook.do("%ddl tensorboard 3f9c") == shown
        tags = waited(lambda: server.request("GET", f"{path}data/plugin/scalars/tags").json)
        assert sorted(tags) == ["all ranks", "rank 1"]
        assert "metrics/loss" in tags["all ranks"]
        # The frame, by what is published.
        code = (
            "from unittest.mock import patch\n"
            "with patch('jupyter_ddl.kernel.magics.board_command.display') as shown:\n"
            f"    get_ipython().run_line_magic('ddl', 'tensorboard --height 300 {RUN}')\n"
            "print(shown.call_args.args[0]['text/html'])"
        )
        assert notebook.do(code) == (
            f'<iframe src="{path}" title="TensorBoard" width="100%" height="300" style="border: 0"></iframe>'
            f'<a href="{path}" target="_blank">TensorBoard of {RUN}</a>\n'
        )
        for what, said in (
            ("./nowhere", f"{str(server.notebooks / 'nowhere')!r}, which does not exist. Pass the folder"),
            ("nowhere", "Received: 'nowhere', which is no folder here; as a run: 'nowhere', which is no run. Pass one"),
        ):
            _, error = notebook.wait(notebook.send(f"%ddl tensorboard {what}"))
            assert said in error
        notebook.do("import os; hub = os.environ.pop('JUPYTER_DDL_HUB')")
        _, error = notebook.wait(notebook.send("%ddl tensorboard"))
        assert "Received: a kernel that none started. In a terminal: jupyter ddl tensorboard --export" in error
        notebook.do("os.environ['JUPYTER_DDL_HUB'] = hub + '-none'")
        _, error = notebook.wait(notebook.send("%ddl tensorboard"))
        assert "Received: none that answers." in error


def test_a_run_that_is_not_over_is_followed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(server.notebooks.parent / "runs"))
    run = "2026-11-20T18-03-08-default-3faa"
    folder = make_run(run, session=own_session())

    def write(*steps: int) -> None:
        write_events(
            folder, [MetricsSample(run, 0, 1_700_000_001.0 + at, 50.0, 2**30, step=at, loss=0.5) for at in steps]
        )

    write(1)
    reply = server.request("POST", BOARDS, body=json.dumps({"run": run}))
    address = f"{reply.json['path']}data/plugin/scalars/scalars?run=rank+0&tag=metrics/loss"

    def steps() -> list[int]:
        shown = server.request("GET", address)
        return [step for _, step, _ in shown.json] if shown.status == 200 else []

    waited(lambda: steps() == [1])
    write(1, 2)
    waited(lambda: steps() == [1, 2])


def test_the_one_not_used_for_longest_makes_room(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MAX_BOARDS", 2)
    folders = [logs_in(tmp_path / str(at)) for at in range(3)]

    async def check() -> None:
        with ThreadPoolExecutor(1) as pool:
            own = boards.Boards(pool, logging.getLogger("test"), 60.0)
            with pytest.raises(InvalidInput, match="TensorBoard takes a folder of this user's for its socket"):
                await own.open(BoardAsked(str(folders[0])))
            own.begin(tmp_path / "hub", "/")
            try:
                for folder in folders[:2]:
                    await own.open(BoardAsked(str(folder)))
                await own.open(BoardAsked(str(folders[0])))
                await own.open(BoardAsked(str(folders[2])))
                assert [board.logs for board in own.running()] == [folders[0], folders[2]]
            finally:
                own.close()
            assert not own.running()
            assert not (tmp_path / "hub-tb").exists()

    loops.run(check())


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that ends boards that are not used for two seconds."""
    idle = "--HubExtension.tensorboard_idle_s=2"
    with Server(tmp_path_factory.mktemp("hasty"), HUB, idle) as running:
        yield running


def test_an_idle_one_ends_and_comes_back_with_the_next_request(hasty: Server, logs: Path) -> None:
    path = opened(hasty, logs)
    assert hasty.request("GET", path).status == 200
    (process,) = processes(hasty)
    waited(lambda: has_ended(process), 20)
    assert hasty.request("GET", path).status == 200
    (other,) = processes(hasty)
    assert other != process


def test_one_that_dies_is_started_again(hasty: Server, logs: Path) -> None:
    path = opened(hasty, logs)
    (process,) = processes(hasty)
    process.send_signal(signal.SIGKILL)
    waited(lambda: has_ended(process))
    assert hasty.request("GET", path).status == 200


def test_it_ends_with_the_server_that_is_killed_and_the_next_one_clears_up(hasty: Server, logs: Path) -> None:
    path = opened(hasty, logs)
    assert hasty.request("GET", path).status == 200
    (process,) = processes(hasty)
    (own,) = {Path(one.laddr) for one in process.net_connections("unix") if one.laddr}
    hasty.kill()
    waited(lambda: has_ended(process))
    assert own.exists()
    hasty.start()
    waited(lambda: not own.parent.exists())
    assert hasty.request("GET", path).status == 404
    assert opened(hasty, logs) == path
    (process,) = processes(hasty)
    hasty.stop()
    waited(lambda: has_ended(process))
    assert not own.parent.exists()
    hasty.start()
