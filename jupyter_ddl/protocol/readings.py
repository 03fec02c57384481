"""Defines what a rank reads of its training, its device and its host: the parts of a MetricsSample.

None stands for what is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it


@dataclass(frozen=True, kw_only=True)
class TrainingReading:
    """How the training on a rank went since its last reading; None for what is not known.

    Attributes:
        model: the model and a rank's batch, equal for the same code: "Sequential, 106,234 parameters, batch 128".
        step: training steps of this run so far: where a cell calls `fit` several times, those of the next one count on.
        steps: of these, since the rank's last reading. The figures below are of these steps.
        epoch: the current epoch, from 0.
        samples_per_s: of this rank.
        step_s: a step, on average, everything between two steps included.
        step_p50_s: a step, the median.
        step_p95_s: a step, the 95th percentile.
        input_s: of an average step, waiting for the batch.
        exchange_s: of an average step, from the rank's own gradients to the reduced ones, the wait for slower ranks
            included.
        loss: as Keras shows it: the mean over the epoch so far.
        metrics: name -> value, likewise.
        epochs: how many the `fit` is to have; the epochs that `epoch` counts. Of ranks that train together the first
            one reports it, and what follows.
        epoch_part: of the current epoch's steps, the part that is done; None where their number is not known.
    """

    model: str | None = None
    step: Int64 | None = None
    steps: Int64 = 0
    epoch: Int64 | None = None
    samples_per_s: float | None = None
    step_s: float | None = None
    step_p50_s: float | None = None
    step_p95_s: float | None = None
    input_s: float | None = None
    exchange_s: float | None = None
    loss: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    epochs: Int64 | None = None
    epoch_part: float | None = None


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """What a rank's device reports; None for what it does not.

    NVML reports the memory of a MIG device, but not its utilization, power, temperature or NVLinks.

    Attributes:
        gpu_pct: of NVML's last sample period, the part in which a GPU kernel ran on the device.
        gpu_memory_used_bytes: on the device, by every process.
        gpu_celsius: the device's temperature.
        nvlink_received_bytes_per_s: by all its NVLinks together, since the last reading; sent likewise.
    """

    gpu_pct: float | None = None
    gpu_memory_used_bytes: Int64 | None = None
    gpu_memory_total_bytes: Int64 | None = None
    gpu_watts: float | None = None
    gpu_celsius: float | None = None
    nvlink_received_bytes_per_s: float | None = None
    nvlink_sent_bytes_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class HostReading:
    """What the first rank on each host reads of its links; None for what is not known, and on the other ranks.

    Attributes:
        network_received_bytes_per_s: by all the host's network interfaces, for every process; sent likewise.
        fabric_received_bytes_per_s: by all its InfiniBand ports; sent likewise.
    """

    network_received_bytes_per_s: float | None = None
    network_sent_bytes_per_s: float | None = None
    fabric_received_bytes_per_s: float | None = None
    fabric_sent_bytes_per_s: float | None = None
