"""Serves `keras.datasets` from this machine's own copies, with one download for all ranks of a host.

Keras's own `load_data` starts a download on every rank, into the same file, and on a node without a network it waits
for minutes and then says "URL fetch failure". Here it looks first in the user's folder, `$JUPYTER_DDL_DATA`; then in
Keras's cache; then one rank of each host downloads. `load_data` itself stays Keras's: only the function that fetches
its files is replaced.

Runs on: every rank.
"""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from jupyter_ddl.datasets import digits
from jupyter_ddl.datasets.downloads import download_once
from jupyter_ddl.errors import DownloadFailed, InvalidInput
from jupyter_ddl.host import files
from jupyter_ddl.host.patching import Layer, instead, patch
from jupyter_ddl.paths import DATA_VARIABLE, data_dir

if TYPE_CHECKING:
    from collections.abc import Callable

# Source: keras 3.15.1, keras/src/datasets; each of these modules holds a `get_file` of its own.
MODULES = (
    "boston_housing",
    "california_housing",
    "cifar10",
    "cifar100",
    "fashion_mnist",
    "imdb",
    "mnist",
    "reuters",
)


def install() -> None:
    """Make `keras.datasets` use this machine's copies. Keras 3 must have been imported."""
    for name in MODULES:
        module = importlib.import_module(f"keras.src.datasets.{name}")
        patch(module, "get_file", get_file, Layer.DATA, instead)


def get_file(
    fname: str = "", origin: str = "", file_hash: str | None = None, *, extract: bool = False, **options: Any
) -> Any:
    """Replace Keras's `get_file`: return the path of the file or, with `extract`, of the folder.

    Args:
        fname: its name in Keras's cache. Old programs have one for each rank ("mnist-0.npz"), since their downloads
            would overwrite one another; here that name is tried, and then the file's own.
        origin: where Keras downloads it.
        file_hash: of the file as it was published; None where Keras knows none.
        extract: the file is an archive.
        options: other arguments of Keras's own `get_file`.

    Raises:
        InvalidInput: there is neither a copy nor a network.
    """
    from keras.src.utils import file_utils

    published = Path(urlsplit(origin).path).name
    folder = digits.keras_cache().parent / options.get("cache_subdir", "datasets")

    def is_whole(path: Path) -> bool:
        return path.is_file() and (file_hash is None or file_utils.validate_file(path, file_hash))

    own = _own_copy(published, folder.name)
    if not extract:
        if own is not None:
            return own
        named = folder / (fname or published)
        return str(named if is_whole(named) else _downloaded(origin, folder / published, is_whole))
    if own is None:
        # Where Keras would put it itself, so that Keras finds it.
        # Source: keras 3.15.1, keras/src/utils/file_utils.py, get_file (`download_target`)
        _downloaded(origin, folder / f"{fname}_archive", is_whole)
    else:
        origin = Path(own).absolute().as_uri()
    # The ranks of a host, one after another.
    with files.locked(folder / f".{fname}.extraction", mode=files.SHARED):
        return file_utils.get_file(fname, origin, file_hash=file_hash, extract=True, **options)


def _own_copy(published: str, subfolder: str) -> Any:
    """Return the user's own copy, as a path or an open file; None where there is none.

    It may differ from the published file, and be a part of it.

    Args:
        published: the file's name at its publisher.
        subfolder: where Keras keeps the set.
    """
    folder = data_dir()
    if folder is None:
        return None
    for path in _places(folder, published, subfolder):
        if path.is_file():
            print(f"Data: {path} (${DATA_VARIABLE}).")
            return str(path)
    return _mnist_as_npz(folder) if published == "mnist.npz" else None


def _places(folder: Path, published: str, subfolder: str) -> list[Path]:
    if subfolder == "datasets":
        return [folder / published, *sorted(folder.glob(f"*/{published}"))]
    # Fashion-MNIST: its files have the names of MNIST's, so only the folder can tell them apart.
    own = folder if folder.name.lower() == subfolder else folder / subfolder
    return [own / published]


def _mnist_as_npz(folder: Path) -> io.BytesIO | None:
    """Return MNIST from IDX files in the user's folder, as the file that Keras reads; None where there are none."""
    found = digits.mnist_in(folder)
    if found is None:
        return None
    print(f"Data: {found.source}.")
    arrays: dict[str, Any] = dict(zip(digits.ARRAYS, (*found.train, *found.test), strict=True))
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    return file


def _downloaded(origin: str, path: Path, is_whole: Callable[[Path], bool]) -> Path:
    if is_whole(path):
        return path
    try:
        download_once(origin, path, is_whole)
    except DownloadFailed as error:
        published = Path(urlsplit(origin).path).name
        # Where the user's folder would have it: Fashion-MNIST's files have the names of MNIST's.
        mine = published if path.parent.name == "datasets" else f"{path.parent.name}/{published}"
        raise InvalidInput(
            "A data set must be on this machine, or within reach of its network.",
            f"no {mine} in ${DATA_VARIABLE} ({data_dir() or 'not set'}), none in Keras's cache, and {error}",
            f"Put {mine} in a folder and set {DATA_VARIABLE} to that, or load it once where there is a network.",
        ) from error
    return path
