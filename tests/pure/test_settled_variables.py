"""Variables that no rank may be given, by name."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol import settled_variables

if TYPE_CHECKING:
    from pathlib import Path

RULE = "The ranks find each other through MPI, as mpiexec has started them, and no variable can change that. Received: "


@pytest.mark.parametrize(
    "assignment",
    [
        "HOROVOD_CONTROLLER=gloo",
        "HOROVOD_CPU_OPERATIONS=ccl",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1",
        "HOROVOD_GLOO_IFACE=lo",
        "HOROVOD_RANK=0",
        "HOROVOD_SIZE=2",
        "HOROVOD_LOCAL_RANK=0",
        "HOROVOD_CROSS_SIZE=1",
        "HOROVOD_HOSTNAME=here",
        "HOROVOD_ELASTIC=1",
        "OMPI_COMM_WORLD_SIZE=2",
        "PMIX_RANK=0",
        "PMI_SIZE=2",
    ],
)
def test_refused_by_name(assignment: str) -> None:
    name, _, value = assignment.partition("=")
    with pytest.raises(InvalidInput) as raised:
        plan(n=2, environment={name: value})
    assert str(raised.value).startswith(f"{RULE}{assignment}. Leave it out: -n says how many ranks there are")


@pytest.mark.parametrize(
    "assignment",
    [
        "HOROVOD_CONTROLLER=MPI",
        "HOROVOD_CPU_OPERATIONS=mpi",
        "HOROVOD_CYCLE_TIME=2",
        "OMPI_MCA_btl=self,sm",
        "PMIX_X=1",
    ],
)
def test_what_changes_nothing_or_tunes_is_allowed(assignment: str) -> None:
    name, _, value = assignment.partition("=")
    assert plan(n=2, environment={name: value}).environment == {name: value}


def test_the_kernels_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")  # a kernel in a job: each rank's mpiexec sets it anew
    plan(n=2)
    monkeypatch.setenv("HOROVOD_CONTROLLER", "gloo")
    with pytest.raises(InvalidInput, match="Received: HOROVOD_CONTROLLER=gloo"):
        plan(n=2)
    assert plan(n=2, environment={"HOROVOD_CONTROLLER": "mpi"}).n == 2


@pytest.mark.parametrize("backend", ["openvino", "bogus"])
def test_another_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str) -> None:
    rule = (
        "Keras on the ranks must use TensorFlow, PyTorch or JAX: training on another backend exchanges no gradients. "
        "Received: "
    )
    remedy = " Set KERAS_BACKEND=tensorflow, KERAS_BACKEND=torch or KERAS_BACKEND=jax, or remove it."
    with pytest.raises(InvalidInput, match=re.escape(f"{rule}KERAS_BACKEND={backend}.{remedy}")):
        plan(n=2, environment={"KERAS_BACKEND": backend})
    monkeypatch.setenv("KERAS_BACKEND", backend)
    with pytest.raises(InvalidInput, match=f"KERAS_BACKEND={backend}"):
        plan(n=2)
    for other in settled_variables.BACKENDS:
        assert plan(n=2, environment={"KERAS_BACKEND": other}).n == 2
    assert plan(n=2, environment={"TF_USE_LEGACY_KERAS": "1"}).n == 2
    monkeypatch.delenv("KERAS_BACKEND")
    file = tmp_path / ".keras" / "keras.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"backend": backend}))
    for variables in ({"HOME": str(tmp_path)}, {"KERAS_HOME": str(file.parent)}):
        with pytest.raises(InvalidInput, match=re.escape(f"{rule}{file} with backend {backend}.{remedy}")):
            settled_variables.check_backend(variables)
    for text in ("", "[]", '{"backend": "tensorflow"}', "{"):
        file.write_text(text)
        settled_variables.check_backend({"HOME": str(tmp_path)})
