"""Builds Horovod for the TensorFlow that is installed: no root, no module system, and once per environment.

    builder     the whole, step by step
    facts       what TensorFlow and Horovod are installed
    target      what to build for; the cache's key
    nccl        CUDA and NCCL           toolchain   compiler, make, CMake, Python packages
    ccl         oneCCL, for CPUs
    sdist       the sources             edits       what they need for TensorFlow 2.16 and newer
    wheel       compiling               cache, install, pip, progress

Imports nothing heavy: TensorFlow and Horovod are asked in processes of their own.
"""

from jupyter_ddl.horovod_build.builder import Outcome, build_horovod
from jupyter_ddl.horovod_build.ccl import CPU_CHOICES
from jupyter_ddl.horovod_build.progress import Progress
from jupyter_ddl.horovod_build.target import GPU_CHOICES

__all__ = ["CPU_CHOICES", "GPU_CHOICES", "Outcome", "Progress", "build_horovod"]
