"""Where images come from, on folders and servers of our own: no test leaves this machine."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jupyter_ddl.datasets import digits, downloads
from jupyter_ddl.errors import DownloadFailed, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRAIN = digits.TRAIN_NAMES
TEST = digits.TEST_NAMES
NAMES = f"{TEST[0]}[.gz] and so on"


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def images(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    return numbers.integers(0, 256, (n, 28, 28), dtype=np.uint8), numbers.integers(0, 10, n, dtype=np.uint8)


def write_pair(folder: Path, names: tuple[str, str], pair: tuple[np.ndarray, np.ndarray], *, zipped: bool) -> None:
    for name, array in zip(names, pair, strict=True):
        content = idx(array)
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's folder of data."""
    place = tmp_path / "data"
    place.mkdir()
    monkeypatch.setenv("JUPYTER_DDL_DATA", str(place))
    return place


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return Keras's empty cache, on a machine with no folder of data and no network."""
    monkeypatch.delenv("JUPYTER_DDL_DATA", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(digits, "URL", "http://127.0.0.1:9/mnist.npz")
    return tmp_path / "keras" / "datasets"


# --- the user's folder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True])
def test_four_idx_files(folder: Path, zipped: bool, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(folder, TRAIN, images(20), zipped=zipped)
    write_pair(folder, TEST, images(5, seed=1), zipped=zipped)
    (x_train, y_train), (x_test, y_test), source = digits.mnist()
    for found, wanted in zip((x_train, y_train, x_test, y_test), (*images(20), *images(5, seed=1)), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == np.uint8
    assert source == f"MNIST (20 + 5 images) from {folder} ($JUPYTER_DDL_DATA)"
    assert capsys.readouterr().out == f"Data: {source}.\n"


def test_test_images_alone_are_split_in_the_same_way_each_time(folder: Path) -> None:
    write_pair(folder, TEST, images(100), zipped=True)
    train, test, source = digits.mnist()
    x, y = images(100)
    np.testing.assert_array_equal(test[0], x[9::10])
    np.testing.assert_array_equal(test[1], y[9::10])
    assert len(train[0]) == len(train[1]) == 90
    assert source == f"MNIST's test images (90 + 10 images) from {folder} ($JUPYTER_DDL_DATA)"


def test_npz_in_a_folder_that_is_named_for_mnist(folder: Path) -> None:
    (folder / "MNIST").mkdir()
    (folder / "others").mkdir()
    arrays = dict(zip(digits.ARRAYS, (*images(4), *images(2, seed=1)), strict=True))
    np.savez(folder / "MNIST" / "mnist.npz", **arrays)
    train, test, source = digits.mnist()
    np.testing.assert_array_equal(train[0], arrays["x_train"])
    np.testing.assert_array_equal(test[1], arrays["y_test"])
    assert source.endswith(f"from {folder}/MNIST ($JUPYTER_DDL_DATA)")


@pytest.mark.parametrize(("make", "what"), [(True, "no such file there"), (False, "no such folder")])
def test_a_folder_without_usable_files_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: bool, what: str
) -> None:
    place = folder if make else folder / "missing"
    monkeypatch.setenv("JUPYTER_DDL_DATA", str(place))
    with pytest.raises(InvalidInput) as raised:
        digits.mnist()
    assert str(raised.value) == (
        f"$JUPYTER_DDL_DATA must be a folder with mnist.npz or MNIST's IDX files ({NAMES}). "
        f"Received: {place} ({what}). Put the files there, or unset JUPYTER_DDL_DATA to use "
        "Keras's cache, its download, or scikit-learn's digits."
    )


def test_images_without_labels(folder: Path) -> None:
    write_pair(folder, TEST, images(10), zipped=True)
    (folder / f"{TEST[1]}.gz").unlink()
    with pytest.raises(InvalidInput) as raised:
        digits.mnist()
    assert str(raised.value) == (
        f"MNIST's images and labels come in pairs. Received: {folder} without {TEST[1]}[.gz]. "
        "Put the missing file beside the other."
    )


def test_more_images_than_labels(folder: Path) -> None:
    write_pair(folder, TEST, (images(10)[0], images(9)[1]), zipped=False)
    with pytest.raises(InvalidInput) as raised:
        digits.mnist()
    assert str(raised.value) == (
        f"Each image must have its label. Received: 10 images and 9 labels in {folder}. "
        "Take both files from the same set."
    )


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        (TEST[0], b"<!DOCTYPE html>", "begins with 3c 21 44 4f"),
        (TEST[0], b"", "begins with nothing"),
        (TEST[0], idx(images(3)[0])[:-1], "2,351 bytes for a shape of (3, 28, 28)"),
        (f"{TEST[0]}.gz", gzip.compress(idx(images(3)[0]))[:-100], "not whole: Compressed file ended"),
        (f"{TEST[0]}.gz", b"no gzip", "not whole: Not a gzipped file"),
        ("mnist.npz", b"PK no zip", ""),
    ],
)
def test_a_broken_file_is_named(folder: Path, name: str, content: bytes, what: str) -> None:
    (folder / TEST[1]).write_bytes(idx(images(3)[1]))
    (folder / name).write_bytes(content)
    with pytest.raises(InvalidInput) as raised:
        digits.mnist()
    text = str(raised.value)
    assert text.startswith(f"A file of MNIST must be as it was published. Received: {folder / name} ({what}"), text
    assert text.endswith("). Fetch it again.")


# --- what the machine has ------------------------------------------------------------------------------------


def test_keras_cache(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.mkdir(parents=True)
    arrays = dict(zip(digits.ARRAYS, (*images(4), *images(2, seed=1)), strict=True))
    np.savez(machine / "mnist.npz", **arrays)
    monkeypatch.setattr(digits, "SHA256", hashlib.sha256((machine / "mnist.npz").read_bytes()).hexdigest())
    train, _, source = digits.mnist()
    np.testing.assert_array_equal(train[0], arrays["x_train"])
    assert source == "MNIST (4 + 2 images) from Keras's cache"


def test_cache_is_where_keras_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KERAS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert digits.keras_cache() == tmp_path / ".keras" / "datasets"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert str(digits.keras_cache()) == "/tmp/.keras/datasets"


DIGITS = "digits (1,618 + 179 images) from scikit-learn, scans of 8x8 enlarged to 28x28"


def test_without_network_scikit_learn_s_digits(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test, source = digits.mnist()
    assert train[0].shape == (1618, 28, 28)
    assert test[0].shape == (179, 28, 28)
    assert train[0].dtype == train[1].dtype == np.uint8
    assert (train[0].min(), train[0].max()) == (0, 255)
    assert set(train[1]) == set(test[1]) == set(range(10))
    assert source == DIGITS
    assert capsys.readouterr().out == (
        f"Data: {DIGITS}. No MNIST: the download failed: no answer from http://127.0.0.1:9/mnist.npz "
        "([Errno 111] Connection refused).\n"
    )


def test_download_can_be_declined(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert digits.mnist(download=False).source == DIGITS
    assert capsys.readouterr().out == f"Data: {DIGITS}. No MNIST: the download was not asked for.\n"


def test_no_source_at_all(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InvalidInput) as raised:
        digits.mnist(download=False)
    assert str(raised.value) == (
        "MNIST must come from somewhere. Received: no $JUPYTER_DDL_DATA, no mnist.npz in Keras's cache, the download "
        "was not asked for, no scikit-learn. Set JUPYTER_DDL_DATA to a folder with mnist.npz, or pip install "
        "scikit-learn for its digits."
    )


def test_tensorflow_is_not_loaded(folder: Path) -> None:
    write_pair(folder, TEST, images(10), zipped=True)
    code = (
        "import sys; from jupyter_ddl.datasets import mnist; mnist(); "
        "print({'tensorflow', 'keras', 'horovod', 'sklearn'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "set()"


# --- the download --------------------------------------------------------------------------------------------


class Site(BaseHTTPRequestHandler):
    """Serves "/whole" and "/cut" (half of what it promises), counts, and never answers "/silent"."""

    asked: list[str] = []  # noqa: RUF012 (each test empties it)
    release = threading.Event()

    def do_GET(self) -> None:
        Site.asked.append(self.path)
        if self.path == "/silent":
            Site.release.wait(20)
        self.send_response(200)
        self.send_header("Content-Length", str(len(b"content")))
        self.end_headers()
        self.wfile.write(b"con" if self.path == "/cut" else b"content")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Site.asked.clear()
    Site.release.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Site.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


def is_content(path: Path) -> bool:
    return path.is_file() and path.read_bytes() == b"content"


def test_many_processes_download_once(site: str, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "file"
    threads = [
        threading.Thread(target=downloads.download_once, args=(f"{site}/whole", path, is_content)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_content(path)
    assert Site.asked == ["/whole"]
    assert sorted(file.name for file in path.parent.iterdir()) == [".file.lock", "file"]


def test_many_processes_fail_once_and_a_later_one_tries_again(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "ANSWER_S", 0.5)
    path = tmp_path / "file"
    texts: list[str] = []

    def attempt() -> None:
        with pytest.raises(DownloadFailed) as raised:
            downloads.download_once(f"{site}/silent", path, is_content)
        texts.append(str(raised.value))

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [f"no answer from {site}/silent within 0 s"] * 4
    assert Site.asked == ["/silent"]
    attempt()
    assert Site.asked == ["/silent"] * 2
    assert not path.exists()


def test_a_download_that_breaks_off_leaves_nothing(site: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(DownloadFailed) as raised:
        downloads.download_once(f"{site}/cut", path, is_content)
    assert str(raised.value).startswith(f"{site}/cut ")
    assert [file.name for file in tmp_path.iterdir()] == [".file.lock"]


def test_another_file_than_the_one_published(site: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed) as raised:
        downloads.download_once(f"{site}/whole", tmp_path / "file", lambda _: False)
    assert str(raised.value) == f"{site}/whole sent another file than the one published"


def test_a_download_that_takes_too_long(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "WHOLE_S", -1.0)
    with pytest.raises(DownloadFailed) as raised:
        downloads.download_once(f"{site}/whole", tmp_path / "file", is_content)
    assert str(raised.value) == f"{site}/whole took more than -1 s"


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DownloadFailed) as raised:
        downloads.download_once("http://127.0.0.1:9/", tmp_path / "file" / "mnist.npz", is_content)
    assert str(raised.value) == f"{tmp_path}/file cannot be written to (File exists)"


def test_a_server_that_answers_no_http(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DownloadFailed) as raised:
            downloads.download_once(f"http://127.0.0.1:{port}/", tmp_path / "file", is_content)
        thread.join()
    assert str(raised.value).startswith(f"http://127.0.0.1:{port}/ broke off (")
