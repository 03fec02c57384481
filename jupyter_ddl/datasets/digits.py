"""Provides real images to learn on, from this machine's copies or a download.

`mnist()` looks in the user's folder, then in Keras's cache, then at Keras's download site, then among the scans that
scikit-learn includes, so that a notebook also runs without a network. It prints which it took.

Runs on: kernel or every rank. Plain NumPy: TensorFlow is not loaded.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jupyter_ddl.datasets.downloads import download_once
from jupyter_ddl.errors import DownloadFailed, InvalidInput
from jupyter_ddl.paths import DATA_VARIABLE, data_dir

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Keras's own file, so that both share one cache.
# Source: keras 3.15.1, keras/src/datasets/mnist.py
URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"

TRAIN_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST_NAMES = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
# Every tenth image of a set that has no test part is a test image: the same on every rank and in every version.
TEST_EVERY = 10

Images = tuple["NDArray[np.uint8]", "NDArray[np.uint8]"]


class DataSet(NamedTuple):
    """Labelled grey images: `(x_train, y_train), (x_test, y_test), source = mnist()`.

    Attributes:
        train: images, shape (n, 28, 28), uint8 from 0 to 255; and labels, shape (n,), uint8 from 0 to 9.
        test: the same, of other images.
        source: the set and its origin, e.g. "MNIST (60,000 + 10,000 images) from Keras's cache".

    Example:
        >>> from jupyter_ddl.datasets import mnist
        >>> digits = mnist(download=False)
        >>> images, labels = digits.train
        >>> len(images) == len(labels)
        True
    """

    train: Images
    test: Images
    source: str


def mnist(*, download: bool = True) -> DataSet:
    """Return handwritten digits, and print where they came from.

    In this order: the folder `$JUPYTER_DDL_DATA` (mnist.npz, or the IDX files of MNIST, gzipped or not, there or in a
    folder in it whose name begins with "mnist"; with the 10,000 test images alone, every tenth becomes a test image);
    Keras's cache; Keras's download, into that cache, by one of this host's ranks; the 1,797 scans of 8x8 pixels that
    scikit-learn includes, enlarged to MNIST's 28x28.

    Args:
        download: False to stay off the network.

    Raises:
        InvalidInput: the folder is set but holds no usable files; or no source is there.

    Example:
        >>> from jupyter_ddl.datasets import mnist
        >>> (x, y), (x_test, y_test), source = mnist(download=False)
        >>> x.shape[1:]
        (28, 28)
    """
    folder = data_dir()
    if folder is not None:
        images, remark = _of_folder(folder), ""
    else:
        images, remark = _of_machine(download=download)
    print(f"Data: {images.source}.{remark}")
    return images


# --- the user's folder ---------------------------------------------------------------------------------------


def mnist_in(folder: Path) -> DataSet | None:
    """Return MNIST from a folder, as `mnist` takes it from the user's; None where there is none."""
    for place in (folder, *_mnist_folders(folder)):
        where = f"{place} (${DATA_VARIABLE})"
        if (place / "mnist.npz").is_file():
            return _described("MNIST", *_read_npz(place / "mnist.npz"), where)
        if _find(place, TEST_NAMES[0]) is not None:
            return _of_idx_files(place, where)
    return None


def _of_folder(folder: Path) -> DataSet:
    images = mnist_in(folder)
    if images is not None:
        return images
    raise InvalidInput(
        f"${DATA_VARIABLE} must be a folder with mnist.npz or MNIST's IDX files ({TEST_NAMES[0]}[.gz] and so on).",
        f"{folder} ({'no such file there' if folder.is_dir() else 'no such folder'})",
        f"Put the files there, or unset {DATA_VARIABLE} to use Keras's cache, its download, or scikit-learn's digits.",
    )


def _mnist_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.lower().startswith("mnist") and path.is_dir())


def _of_idx_files(place: Path, where: str) -> DataSet:
    test = _read_pair(place, TEST_NAMES)
    if _find(place, TRAIN_NAMES[0]) is not None:
        return _described("MNIST", _read_pair(place, TRAIN_NAMES), test, where)
    return _described("MNIST's test images", *_split(test), where)


def _read_pair(place: Path, names: tuple[str, str]) -> Images:
    paths = [_find(place, name) for name in names]
    if paths[0] is None or paths[1] is None:
        raise InvalidInput(
            "MNIST's images and labels come in pairs.",
            f"{place} without {names[paths.index(None)]}[.gz]",
            "Put the missing file beside the other.",
        )
    images, labels = _read_idx(paths[0], dimensions=3), _read_idx(paths[1], dimensions=1)
    if len(images) != len(labels):
        raise InvalidInput(
            "Each image must have its label.",
            f"{len(images):,} images and {len(labels):,} labels in {place}",
            "Take both files from the same set.",
        )
    return images, labels


def _find(place: Path, name: str) -> Path | None:
    return next((path for path in (place / name, place / f"{name}.gz") if path.is_file()), None)


def _read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file: two zero bytes, the type (8: bytes), the number of dimensions, their sizes, the data."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile) as error:
        raise _broken(path, f"not whole: {error}") from error
    start = 4 + 4 * dimensions
    if content[:4] != bytes((0, 0, 8, dimensions)) or len(content) < start:
        raise _broken(path, f"begins with {content[:4].hex(' ') or 'nothing'}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", count=dimensions, offset=4))
    if len(content) - start != np.prod(shape):
        raise _broken(path, f"{len(content) - start:,} bytes for a shape of {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_npz(path: Path) -> tuple[Images, Images]:
    try:
        with np.load(path, allow_pickle=False) as file:
            x_train, y_train, x_test, y_test = (file[name] for name in ARRAYS)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise _broken(path, str(error)) from error
    return (x_train, y_train), (x_test, y_test)


def _broken(path: Path, what: str) -> InvalidInput:
    return InvalidInput("A file of MNIST must be as it was published.", f"{path} ({what})", "Fetch it again.")


# --- what this machine has -----------------------------------------------------------------------------------


def _of_machine(*, download: bool) -> tuple[DataSet, str]:
    """Return images, and why it is not MNIST where it is not."""
    cached = keras_cache() / "mnist.npz"
    if _is_keras_file(cached):
        return _described("MNIST", *_read_npz(cached), "Keras's cache"), ""
    missing = "the download was not asked for"
    if download:
        try:
            download_once(URL, cached, _is_keras_file)
        except DownloadFailed as error:
            missing = f"the download failed: {error}"
        else:
            return _described("MNIST", *_read_npz(cached), "Keras's download site"), ""
    return _digits(missing), f" No MNIST: {missing}."


def keras_cache() -> Path:
    """Return the folder where Keras keeps data sets.

    Source: keras 3.15.1, keras/src/backend/config.py (`_KERAS_DIR`).
    """
    home = os.environ.get("KERAS_HOME")
    if home is None:
        user = Path.home()
        home = str((user if os.access(user, os.W_OK) else Path("/tmp")) / ".keras")  # noqa: S108 (Keras's choice)
    return Path(home).expanduser() / "datasets"


def _is_keras_file(path: Path) -> bool:
    """Return whether the file is there and whole: an earlier download may have been cut off."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


def _digits(missing: str) -> DataSet:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InvalidInput(
            "MNIST must come from somewhere.",
            f"no ${DATA_VARIABLE}, no mnist.npz in Keras's cache, {missing}, no scikit-learn",
            f"Set {DATA_VARIABLE} to a folder with mnist.npz, or pip install scikit-learn for its digits.",
        ) from error
    scans, labels = load_digits(return_X_y=True)
    # From 0..16, the count of dark pixels in a 4x4 block of the scan, to 0..255. Then each pixel as a 3x3 block with a
    # margin of 2, so that programs for MNIST run.
    images = np.round(scans.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    images = np.pad(images.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))
    return _described(
        "digits", *_split((images, labels.astype(np.uint8))), "scikit-learn, scans of 8x8 enlarged to 28x28"
    )


# --- together ------------------------------------------------------------------------------------------------


def _split(images: Images) -> tuple[Images, Images]:
    x, y = images
    is_test = np.arange(len(x)) % TEST_EVERY == TEST_EVERY - 1
    return (x[~is_test], y[~is_test]), (x[is_test], y[is_test])


def _described(name: str, train: Images, test: Images, where: str) -> DataSet:
    return DataSet(train, test, f"{name} ({len(train[0]):,} + {len(test[0]):,} images) from {where}")
