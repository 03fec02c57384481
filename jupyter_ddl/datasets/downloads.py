"""Downloads a file once for all processes of a host, with a time limit.

Plain Python: Keras's own download has no time limit, and every rank would start one.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from concurrent import futures
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import DownloadFailed
from jupyter_ddl.host import files

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_S = 15.0
SILENCE_S = 10.0
WHOLE_S = 120.0
CHUNK_BYTES = 1 << 16


def download_once(url: str, path: Path, is_whole: Callable[[Path], bool]) -> None:
    """Fetch a file, unless another process of this host does: then wait for that one, and share its result.

    Args:
        url: where the file is. Proxies are taken from the environment.
        path: where it is put, whole or not at all.
        is_whole: whether a file is the one wanted.

    Raises:
        DownloadFailed: it could not be fetched within two minutes, nothing came for ten seconds, or it is not whole.
    """
    asked_at = time.time()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = files.open_to_lock(path.with_name(f".{path.name}.lock"), mode=files.SHARED)
        files.lock(file)
    except OSError as error:
        raise DownloadFailed(f"{path.parent} cannot be written to ({error.strerror})") from error
    with file:
        if is_whole(path):
            return
        failed_at, _, why = file.read().decode().partition(" ")
        if why and float(failed_at) > asked_at:
            raise DownloadFailed(why)
        try:
            _download(url, path, is_whole)
        except DownloadFailed as error:
            file.seek(0)
            file.truncate()
            file.write(f"{time.time()} {error}".encode())
            raise


def _download(url: str, path: Path, is_whole: Callable[[Path], bool]) -> None:
    deadline = time.monotonic() + WHOLE_S
    try:
        with _open(url) as source, files.replacing(path, mode=files.SHARED) as sink:
            while chunk := source.read(CHUNK_BYTES):
                sink.write(chunk)
                if time.monotonic() > deadline:
                    raise DownloadFailed(f"{url} took more than {WHOLE_S:.0f} s")
            sink.flush()
            if not is_whole(Path(sink.name)):
                raise DownloadFailed(f"{url} sent another file than the one published")
    except (OSError, HTTPException) as error:
        raise DownloadFailed(f"{url} broke off ({error})") from error


def _open(url: str) -> Any:
    """Return the server's answer, or raise within ANSWER_S.

    It runs in a thread: a silent name server has its own time limits, and if a firewall drops packets, each of the
    server's addresses is tried.
    """
    answer: futures.Future[Any] = futures.Future()

    def ask() -> None:
        try:
            answer.set_result(urllib.request.urlopen(url, timeout=SILENCE_S))  # noqa: S310 (callers pass their own URL)
        except (OSError, HTTPException, ValueError) as error:
            answer.set_exception(error)

    Thread(target=ask, name="jupyter_ddl download", daemon=True).start()
    try:
        return answer.result(ANSWER_S)
    except futures.TimeoutError as error:
        answer.add_done_callback(_close)
        raise DownloadFailed(f"no answer from {url} within {ANSWER_S:.0f} s") from error
    except urllib.error.URLError as error:
        raise DownloadFailed(f"no answer from {url} ({error.reason})") from error


def _close(late: futures.Future[Any]) -> None:
    if late.exception() is None:
        late.result().close()
