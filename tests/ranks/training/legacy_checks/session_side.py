"""Sessions, devices, and TensorFlow 1's names."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from jupyter_ddl.legacy.devices import OwnDevices, follow, own_devices, without_device
from legacy_checks import check, refusal


def begun(session: tf.compat.v1.Session) -> bool:
    """Return whether TensorFlow has made the session."""
    return "_session" in vars(session)


@check("ConfigProto")
def config_proto() -> None:
    config = tf.ConfigProto(allow_soft_placement=True, intra_op_parallelism_threads=4)
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = "3"
    assert isinstance(config, tf.compat.v1.ConfigProto)


@check("Session")
def session() -> None:
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.visible_device_list = "3"
    plain, v1, interactive = (
        tf.Session(config=config),
        tf.compat.v1.Session(config=config),
        tf.compat.v1.InteractiveSession(config=config),
    )
    assert plain.run(tf.compat.v1.global_variables_initializer()) is None
    assert v1.run([tf.constant(2.0)]) == [2.0]
    with plain as entered:
        assert entered is plain
        assert tf.executing_eagerly()
    for one in (plain, v1, interactive):
        one.close()
        assert not begun(one)
    assert tf.executing_eagerly()


def a_session_that_computes() -> None:
    """TensorFlow 1 programs that need no Keras go on as they did."""
    graph = tf.Graph()
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.visible_device_list = "3"
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [])
        doubled = 2 * x
        with tf.compat.v1.Session(config=config) as one:
            assert one.run(doubled, {x: 3.0}) == 6.0
    with tf.compat.v1.Session(graph=graph) as other:
        assert begun(other)
        assert other.run(doubled, feed_dict={x: 4.0}) == 8.0
    late = tf.compat.v1.Session()
    assert not begun(late)
    assert late.list_devices()
    assert begun(late)
    late.close()
    with tf.compat.v1.Session() as within:
        assert within.run(tf.constant(5.0)) == 5.0
    assert tf.executing_eagerly()


check("Session: one that computes")(a_session_that_computes)


@check("enable_eager_execution")
def enable_eager_execution() -> None:
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.allow_growth = True
    assert tf.constant(1).numpy() == 1  # TensorFlow has started
    tf.enable_eager_execution(config=config)
    tf.compat.v1.enable_eager_execution(config=config)
    assert tf.executing_eagerly()


@check("TensorFlow 1 names")
def names_of_tensorflow_1() -> None:
    tf.set_random_seed(7)
    first = tf.random.uniform([3]).numpy()
    tf.random.set_random_seed(7)
    assert np.array_equal(first, tf.random.uniform([3]).numpy())
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.GPUOptions(allow_growth=True)
    tf.reset_default_graph()


@check("set_session")
def set_session() -> None:
    from keras import backend as K  # noqa: N812

    config = tf.compat.v1.ConfigProto()
    config.gpu_options.visible_device_list = "1"
    one = tf.compat.v1.Session(config=config)
    K.set_session(one)
    assert K.get_session() is one
    tf.keras.backend.set_session(tf.compat.v1.Session(config=config))
    tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session(config=config))
    from tensorflow.compat.v1.keras.backend import set_session as third
    from tensorflow.keras.backend import set_session as second

    assert second is third
    import tensorflow.compat.v1 as again

    assert again.Session is tf.compat.v1.Session
    again.enable_eager_execution(config=config)
    K.clear_session()
    K.get_session().run([])
    assert not begun(K.get_session())
    assert tf.executing_eagerly()


@check("tensorflow_backend")
def tensorflow_backend() -> None:
    import keras.backend.tensorflow_backend as KTF  # noqa: N812
    from keras import backend as K  # noqa: N812
    from keras.backend.tensorflow_backend import set_session as direct

    assert KTF.epsilon() == K.epsilon()
    direct(tf.compat.v1.Session())
    K.tensorflow_backend.set_session(tf.compat.v1.Session())


@check("gpus[hvd.local_rank()]")
def own_gpu() -> None:
    """As on a rank that has been given one GPU; this machine may have none."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = "5"
        devices = own_devices(["the GPU"])
        assert devices[0] == devices[3] == devices[-1] == "the GPU"
        assert devices == ["the GPU"]
        assert list(devices) == ["the GPU"]
        assert own_devices(["one", "two"])[1] == "two"
        assert not isinstance(own_devices([]), OwnDevices)
        os.environ["CUDA_VISIBLE_DEVICES"] = "5,6"
        assert not isinstance(own_devices(["the GPU"]), OwnDevices)
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES")
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
    gpus = tf.config.experimental.list_physical_devices("GPU")
    assert gpus == tf.config.list_physical_devices("GPU")
    assert tf.config.list_physical_devices("CPU")
    assert tf.config.list_physical_devices()


class Recorded:
    """A stand-in for TensorFlow where there are several GPUs: it records what is asked of it."""

    def __init__(self, gpus: int) -> None:
        self.asked: list[object] = []
        self.config = self
        self.experimental = self
        self.gpus = [f"GPU {i}" for i in range(gpus)]

    def list_physical_devices(self, kind: str) -> list[str]:
        return self.gpus if kind == "GPU" else []

    def set_visible_devices(self, devices: list[str], kind: str) -> None:
        self.asked.append((devices, kind))

    def set_memory_growth(self, device: str, enable: bool) -> None:
        self.asked.append((device, enable))


def a_gpu_that_start_up_has_not_chosen() -> None:
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.visible_device_list = "1"
    config.gpu_options.allow_growth = True
    four, one = Recorded(4), Recorded(1)
    follow(four, config)
    follow(one, config)
    assert four.asked == [(["GPU 1"], "GPU"), ("GPU 1", True)]
    assert one.asked == []
    assert without_device(four, config) is config
    assert not without_device(one, config).gpu_options.visible_device_list
    assert without_device(one, config).gpu_options.allow_growth
    assert config.gpu_options.visible_device_list == "1"


def monitored_session() -> None:
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.visible_device_list = "3"
    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        more = tf.compat.v1.assign_add(step, 1)
        with tf.compat.v1.train.MonitoredTrainingSession(config=config) as session:
            assert session.run(more) == 1


check("Session: a GPU that start-up has not chosen")(a_gpu_that_start_up_has_not_chosen)
check("Session: MonitoredTrainingSession")(monitored_session)


@check("set_memory_growth")
def memory_growth() -> None:
    from tensorflow.python.eager import context

    device = context.PhysicalDevice("/physical_device:GPU:0", "GPU")
    started = context.context()
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    devices, growth = started._physical_devices, started._memory_growth_map
    started._physical_devices = [*devices, device]  # as where there is a GPU
    try:
        tf.config.experimental.set_memory_growth(device, True)
    finally:
        started._physical_devices = devices
        assert started._memory_growth_map is growth


@refusal("a device that is not there")
def wrong_device() -> None:
    from tensorflow.python.eager import context

    tf.config.experimental.set_memory_growth(context.PhysicalDevice("/physical_device:GPU:9", "GPU"), True)


@refusal("a name that TensorFlow never had")
def no_such_name() -> None:
    tf.no_such_name  # noqa: B018
