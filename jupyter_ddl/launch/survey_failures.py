"""Says why hosts cannot run ranks: from the status and last line of ssh or srun, or our script's status."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.launch.schedulers.known import scheduler_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.place import Place

# The statuses with which the survey's script ends; sh and ssh use others.
NO_ENVIRONMENT, NO_RUNTIME, NO_IMAGE = 122, 123, 124
# Source: ssh(1), EXIT STATUS: 255 if an error occurred.
_SSH_FAILED = 255
# Apptainer colours what it says, also where that is no terminal. Source: ECMA-48, 8.3.117
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def raise_for_all(failures: Mapping[str, HostUnfit], of: int) -> None:
    """Raise one error for all hosts that failed; nothing where none did.

    Hosts that failed alike share a line, in which HOST stands for each of them.

    Args:
        failures: host -> its failure.
        of: how many hosts were looked at.

    Raises:
        HostUnfit: a host's own failure where it is the only one, else one error with a line for each.
    """
    if not failures:
        return
    if len(failures) == 1:
        raise next(iter(failures.values()))
    alike = dict[str, list[str]]()
    for host, failure in failures.items():
        alike.setdefault(_without_name(host, str(failure)), []).append(host)
    lines = [f"- {', '.join(hosts)}: {text if len(hosts) > 1 else failures[hosts[0]]}" for text, hosts in alike.items()]
    raise HostUnfit(
        "Every host must be fit to run ranks.",
        f"{len(failures)} of {of} hosts that are not",
        "\n".join(["For each:", *lines]),
    )


def _without_name(host: str, text: str) -> str:
    return re.sub(rf"(?<![\w.:-]){re.escape(host)}(?![\w-]|[.:]\w)", "HOST", text)


def failure_of(host: str, status: int | None, said: str, *, place: Place, timeout_s: float) -> HostUnfit:
    """Return the error for a host that gave no answer.

    Args:
        host: the name with which it was given.
        status: of ssh or the scheduler's command; None where it had not ended in time.
        said: what these, or the program, printed.
        place: whose host it is, and how that is reached.
        timeout_s: how long it had, in seconds.
    """
    scheduler = scheduler_of(place)
    by_scheduler = None if scheduler is None else scheduler.on_node(place, host)
    tried = f"Try in a terminal: {shlex.join([*(by_scheduler or (*shlex.split(place.ssh), host)), 'true'])}"
    if status is None:
        return HostUnfit(f"{host} must answer.", f"nothing within {timeout_s:g} s", tried)
    if status == NO_ENVIRONMENT:
        return HostUnfit(
            "Every host must have this Python environment at the same path.",
            f"{sys.executable}, which {host} does not have",
            "Put the environment on a file system that all hosts share, or install it there at that path.",
        )
    if by_scheduler is None and status == _SSH_FAILED:
        return _of_ssh(host, said, tried)
    if scheduler is not None and (refusal := scheduler.refusal(said)) is not None:
        return HostUnfit(f"{scheduler.title} must run a command on {host}.", refusal[:500], tried)
    last = said.strip().splitlines()[-1:] or [f"it ended with status {status}"]
    return HostUnfit(f"{host} must run this environment's Python.", last[0][:500], "Mend it there, or leave it out.")


def failure_in_image(host: str, image: str, status: int | None, said: str) -> HostUnfit | None:
    """Return the error for a host on which an image did not answer; None where that is not the image's fault.

    Args:
        host: the name with which it was given.
        image: its path.
        status: of what ran the image there.
        said: what it printed.
    """
    if status == NO_RUNTIME:
        return HostUnfit(
            "Ranks in an image take Apptainer or Singularity on every host.",
            f"neither on PATH of {host}",
            "Load its module before JupyterLab starts, or install it there.",
        )
    if status == NO_IMAGE:
        return HostUnfit(
            "Every host must have the image at the same path.",
            f"{image}, which {host} does not have",
            "Put it on a file system that all hosts share.",
        )
    if re.search(r"No module named '?jupyter_ddl|python3.*not found in \$PATH", said):
        return HostUnfit(
            "An image for ranks must have jupyter_ddl for the first python3 on its PATH.",
            f"{image}, which has none",
            "Build it with the steps in containers/, or install jupyter_ddl into it.",
        )
    if (other := re.search(r"ImportError: cannot import name .* from 'jupyter_ddl[^\n]*", said)) is not None:
        return HostUnfit(
            "The image must have this kernel's version of jupyter_ddl.",
            f"another one in {image} ({other[0][:300]})",
            "Install the same in one of them.",
        )
    plain = _COLOUR.sub("", said)
    refused = re.search(r"FATAL\s*:\s*(.+)", plain) or re.search(r"ERROR\s*:\s*(.+)", plain)
    if refused is None:
        return None
    return HostUnfit(
        f"{host} must be able to run the image.",
        refused[1][:500],
        f"Try in a terminal there: apptainer exec {image} true",
    )


def _of_ssh(host: str, said: str, tried: str) -> HostUnfit:
    received = (said.strip().splitlines() or ["ssh failed, and said nothing"])[-1].strip()[:500]
    for pattern, rule, remedy in _CAUSES:
        if re.search(pattern, said, re.IGNORECASE):
            return HostUnfit(rule.format(host=host), received, remedy.format(host=host))
    return HostUnfit(f"{host} must be reached over SSH.", received, tried)


# OpenSSH's texts -> the rule, and the remedy.
_CAUSES = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "{host} must show the key that was known of it.",
        "Another machine may answer in its place. If it was installed again, remove the old key: ssh-keygen -R {host}",
    ),
    (
        r"Host key verification failed|No \S+ host key is known",
        "The key of {host} must be known before ranks start there.",
        "Connect once in a terminal (ssh {host}), compare the key that it shows, and answer yes.",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "{host} must let you in without a password.",
        "Copy a key there (ssh-copy-id {host}), or load yours into an agent (ssh-add) before JupyterLab starts.",
    ),
    (
        r"Could not resolve hostname",
        "A host's name must be known here.",
        "Correct it, or add it to ~/.ssh/config.",
    ),
    (
        r"Connection refused|timed out|No route to host|Network is unreachable|Connection (reset|closed)",
        "{host} must answer SSH.",
        "Look whether it is up and its sshd runs; another port goes into --ssh 'ssh -p PORT'.",
    ),
)
