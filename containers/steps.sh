#!/bin/sh
# The steps of every image: the definitions for Apptainer and the Dockerfile run this, and differ in where they begin.
#
#   steps.sh FOLDER      FOLDER holds the wheel that `make wheel` built
#
# It takes Debian's or Ubuntu's packages. What the image has of its own stays: a TensorFlow with its Horovod and its MPI.
set -eu
folder=${1:?the folder of the wheel}
environment=/opt/ddl
wheel=$(ls "$folder"/jupyter_ddl-*.whl)

# A compiler for Horovod, and SSH to other hosts and from them.
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    ca-certificates g++ make openssh-client openssh-server python3 python3-dev python3-venv
# Each container makes its own: those of an image are known to all who have it.
rm -f /etc/ssh/ssh_host_*
mkdir -p /run/sshd

# What the image has is seen in ours, and is not installed again.
python3 -m venv --system-site-packages "$environment"
has() { "$environment/bin/python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }
extras=lab
command -v mpiexec >/dev/null || extras=$extras,mpi
has tensorflow || extras=$extras,tensorflow
"$environment/bin/pip" install --no-cache-dir "$wheel[$extras]"
if command -v nvcc >/dev/null && [ "$extras" != "${extras%tensorflow}" ]; then
    # TensorFlow's own CUDA; the image's is for building Horovod with NCCL.
    "$environment/bin/pip" install --no-cache-dir 'tensorflow[and-cuda]'
fi

# It leaves a Horovod that works alone.
PATH="$environment/bin:$PATH" "$environment/bin/jupyter-ddl" build-horovod
rm -rf /var/lib/apt/lists/* /root/.cache
