"""Makes the objects by which Kubernetes runs an export: an MPIJob of the MPI operator, and a TrainJob of Kubeflow.

They are JSON, which kubectl takes as it takes YAML. Nothing here talks to a cluster.

Sources: kubeflow/mpi-operator, MPIJob v2beta1; kubeflow/trainer, TrainJob trainer.kubeflow.org/v1alpha1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

HOSTFILE = "/etc/mpi/hostfile"
"""Where both of them put the list of hosts."""
_VOLUME = "work"
_MANAGER = "jupyter-ddl.export/volume"
# Source: Kubernetes, "Object Names and IDs": DNS labels, which services are named by.
_NAME_CHARACTERS = 40
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True)
class Pods:
    """What the pods of a job are made of.

    Attributes:
        image: that has jupyter_ddl, MPI and an SSH server; see containers/.
        claim: the PersistentVolumeClaim that has the notebook's folder.
        mount: where the claim is in the pods: the folder's own path, so that all names in it hold.
        command: runs the export, in the launcher's pod.
        nodes: pods of workers.
        ranks_per_node: ranks in each.
        gpus_per_node: GPUs of each.
        cores_per_rank: None for what the cluster gives.
        seconds: of the wall time; None for no limit.
    """

    image: str
    claim: str
    mount: str
    command: Sequence[str]
    nodes: int
    ranks_per_node: int
    gpus_per_node: int = 0
    cores_per_rank: int | None = None
    seconds: int | None = None


def object_name(title: str) -> str:
    """Return a name as Kubernetes takes them, for a notebook's."""
    return re.sub(r"[^a-z0-9]+", "-", f"ddl-{title.lower()}")[:_NAME_CHARACTERS].strip("-")


def check_image(image: str | None, claim: str | None) -> tuple[str, str]:
    """Return the image and the claim.

    Raises:
        InvalidInput: one is missing, or no name that Kubernetes takes.
    """
    if not image or not claim:
        missing = "--claim" if image else "--image"
        raise InvalidInput(
            "A job of Kubernetes has an image and a volume claim.",
            f"no {missing}",
            "Add --image REGISTRY/ddl:1 --claim NAME: the claim has the notebook's folder, at its own path.",
        )
    if not _CLAIM.fullmatch(claim):
        raise InvalidInput(
            "A volume claim's name has lower case letters, digits, hyphens and points.",
            f"--claim {claim!r}",
            "Write it as `kubectl get pvc` does.",
        )
    if any(not character.isprintable() or character.isspace() for character in image):
        raise InvalidInput("An image's name has no spaces.", f"--image {image!r}", "Write --image REGISTRY/ddl:1.")
    return image, claim


def mpi_job(name: str, pods: Pods) -> dict[str, Any]:
    """Return the MPIJob: a launcher, in which the notebook's kernel runs, and the workers, which have the ranks."""
    policy: dict[str, Any] = {"cleanPodPolicy": "Running", "backoffLimit": 0}
    if pods.seconds is not None:
        policy["activeDeadlineSeconds"] = pods.seconds
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": pods.ranks_per_node,
            "mpiImplementation": "OpenMPI",
            # The kernel looks at each host before it starts ranks there.
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": policy,
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": _template("launcher", pods, command=list(pods.command))},
                "Worker": {"replicas": pods.nodes, "template": _template("worker", pods, resources=_resources(pods))},
            },
        },
    }


def train_job(name: str, pods: Pods, runtime: str = "deepspeed-distributed") -> dict[str, Any]:
    """Return the TrainJob for a runtime whose policy is MPI.

    Args:
        name: of the job.
        pods: what they are made of.
        runtime: the ClusterTrainingRuntime; the one of this name, which Trainer brings, starts Open MPI's hosts.
    """
    mounts = {"volumes": _volumes(pods), "containers": [{"name": "node", "volumeMounts": _mounts(pods)}]}
    template = {"spec": {"template": {"spec": mounts}}}
    patched = [{"name": job, "template": template} for job in ("launcher", "node")]
    trainer: dict[str, Any] = {
        "image": pods.image,
        "command": list(pods.command),
        "numNodes": pods.nodes,
        "numProcPerNode": pods.ranks_per_node,
    }
    if resources := _resources(pods):
        trainer["resourcesPerNode"] = resources
    spec: dict[str, Any] = {
        "runtimeRef": {"name": runtime},
        "trainer": trainer,
        "runtimePatches": [
            {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": patched}}}}
        ],
    }
    if pods.seconds is not None:
        spec["activeDeadlineSeconds"] = pods.seconds
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def _template(
    name: str, pods: Pods, *, command: list[str] | None = None, resources: dict[str, Any] | None = None
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": pods.image, "volumeMounts": _mounts(pods)}
    if command is not None:
        container["command"] = command
    if resources:
        container["resources"] = resources
    return {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": _volumes(pods)}}


def _volumes(pods: Pods) -> list[dict[str, Any]]:
    return [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": pods.claim}}]


def _mounts(pods: Pods) -> list[dict[str, Any]]:
    return [{"name": _VOLUME, "mountPath": pods.mount}]


def _resources(pods: Pods) -> dict[str, Any]:
    """Return what a worker's container has; nothing where the cluster decides."""
    limits: dict[str, Any] = {}
    if pods.gpus_per_node:
        limits["nvidia.com/gpu"] = pods.gpus_per_node
    if pods.cores_per_rank is not None:
        limits["cpu"] = pods.cores_per_rank * pods.ranks_per_node
    return {"limits": limits} if limits else {}
