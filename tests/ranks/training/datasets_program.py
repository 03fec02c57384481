"""What test_local_datasets.py asserts, found in one process with the real Keras. Run with a folder to work in."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import sys
import tarfile
import threading
from pathlib import Path

FOLDER = Path(sys.argv[1])
os.environ["KERAS_HOME"] = str(FOLDER / "keras")
# A network that answers at once: with nothing.
os.environ["https_proxy"] = "http://127.0.0.1:9"
os.environ.pop("JUPYTER_DDL_DATA", None)
(FOLDER / "keras").mkdir()

import keras  # noqa: E402  the folder of its data sets is read when it is imported
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from jupyter_ddl.datasets import keras_datasets  # noqa: E402
from jupyter_ddl.errors import InvalidInput  # noqa: E402

keras_datasets.install()


def refusal(load: object) -> str:
    try:
        load()  # type: ignore[operator]
    except InvalidInput as error:
        return str(error)
    return "not refused"


def shapes(loaded: object) -> list[list[int]]:
    (x_train, y_train), (x_test, y_test) = loaded  # type: ignore[misc]
    return [list(array.shape) for array in (x_train, y_train, x_test, y_test)]


def write_idx(folder: Path, name: str, array: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    (folder / f"{name}.gz").write_bytes(gzip.compress(header + array.tobytes()))


def write_set(folder: Path, part: str, count: int) -> None:
    write_idx(folder, f"{part}-images-idx3-ubyte", np.zeros((count, 28, 28), np.uint8))
    write_idx(folder, f"{part}-labels-idx1-ubyte", np.zeros(count, np.uint8))


found: dict[str, object] = {
    "neither copy nor network": refusal(keras.datasets.mnist.load_data),
    "nor an archive": refusal(keras.datasets.cifar10.load_data),
}

# --- the user's folder
own = FOLDER / "own"
write_set(own, "t10k", 20)
os.environ["JUPYTER_DDL_DATA"] = str(own)
found["IDX files"] = shapes(keras.datasets.mnist.load_data())
found["a name for each rank"] = shapes(tf.keras.datasets.mnist.load_data(path="mnist-3.npz"))
# Its files have the names of MNIST's, which are not to be taken for it.
found["MNIST is not Fashion-MNIST"] = refusal(keras.datasets.fashion_mnist.load_data)
write_set(own / "fashion-mnist", "train", 7)
write_set(own / "fashion-mnist", "t10k", 3)
found["Fashion-MNIST"] = shapes(keras.datasets.fashion_mnist.load_data())
arrays = {
    "x_train": np.zeros((5, 28, 28)),
    "y_train": np.zeros(5),
    "x_test": np.zeros((2, 28, 28)),
    "y_test": np.zeros(2),
}
np.savez(own / "mnist.npz", **arrays)
found["a smaller mnist.npz"] = shapes(keras.datasets.mnist.load_data())

# --- a download, and an archive
requests: list[str] = []


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args: object) -> None:
        super().__init__(*args, directory=str(FOLDER / "site"))  # type: ignore[arg-type]

    def log_message(self, *args: object) -> None:
        requests.append(self.path)


(FOLDER / "site" / "flowers").mkdir(parents=True)
(FOLDER / "site" / "flowers" / "rose.txt").write_text("red")
with tarfile.open(FOLDER / "site" / "flowers.tar.gz", "w:gz") as archive:
    archive.add(FOLDER / "site" / "flowers", "flowers")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}/flowers.tar.gz"
get_file = keras_datasets.get_file
first = get_file("flowers-set", origin, extract=True)
found["an archive"] = (Path(first) / "flowers" / "rose.txt").read_text()
found["a file"] = Path(get_file("flowers-0.tar.gz", origin)).name
server.shutdown()
found["without the network"] = [
    get_file("flowers-set", origin, extract=True) == first,
    Path(get_file("flowers-1.tar.gz", origin)).name,
]
found["requests"] = requests
(own / "flowers.tar.gz").write_bytes((FOLDER / "site" / "flowers.tar.gz").read_bytes())
found["an archive of the user's"] = (Path(get_file("mine", origin, extract=True)) / "flowers" / "rose.txt").read_text()

(FOLDER / "found.json").write_text(json.dumps(found))
