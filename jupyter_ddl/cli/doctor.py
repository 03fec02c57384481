"""`jupyter ddl doctor`: checks what a training cell needs, and reports how to fix problems."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    import argparse

NAME = "doctor"
_OF_NETWORK = {
    "-n": "n",
    "-H": "hosts",
    "--hostfile": "hostfile",
    "--ssh": "ssh",
    "--local": "local",
    "--profile": "profile",
}
HELP = "Check everything that a training cell needs, and say how to fix what is wrong."
EXAMPLES = (
    ("doctor", "check this machine"),
    ("doctor --network -n 2", "what is between two ranks, and how fast they exchange"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--patches", action="store_true", help="print which methods of its libraries a rank replaces, and why"
    )
    parser.add_argument("--container", metavar="IMAGE", help="check this image of Apptainer's too, for ranks to run in")
    network = parser.add_argument_group("the exchange between ranks")
    network.add_argument(
        "--network",
        action="store_true",
        help="measure latency, bandwidth and allreduce within hosts and between them, and say what is slow",
    )
    network.add_argument("-n", type=int, help="ranks (default: as a start has them)")
    network.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...", help="between ranks on these hosts, over SSH")
    network.add_argument("--hostfile", metavar="FILE", help="the same as a file: lines `nodea slots=2`")
    network.add_argument("--ssh", metavar="COMMAND", help="how hosts are reached (default: ssh)")
    network.add_argument("--local", action="store_true", help="on this host, also within a batch job")
    network.add_argument("--profile", metavar="NAME", help="where a profile's ranks start")


def main(arguments: argparse.Namespace) -> int:
    """Check; return 1 where there is a problem. With --patches print the patches, and check nothing."""
    if arguments.network:
        return _network(arguments)
    if given := [option for option, name in _OF_NETWORK.items() if getattr(arguments, name)]:
        raise InvalidInput(f"{given[0]} says where --network measures.", "no --network", "Add --network.")
    if arguments.patches:
        from jupyter_ddl.doctor.patches import patches_json, patches_text

        print(json.dumps(patches_json(), indent=2) if arguments.json else patches_text())
        return 0
    from jupyter_ddl.doctor import as_json, examine, is_well, print_report

    if arguments.json:
        checks = list(examine(arguments.container))
        print(json.dumps(as_json(checks), indent=2))
    else:
        checks = print_report(arguments.container)
    return 0 if is_well(checks) else 1


def _network(arguments: argparse.Namespace) -> int:
    from jupyter_ddl.doctor.network import network_report
    from jupyter_ddl.launch.profiles.start_options import StartOptions

    options = StartOptions(
        n=arguments.n,
        hosts=arguments.hosts,
        hostfile=arguments.hostfile,
        ssh=arguments.ssh,
        local=arguments.local,
    )
    print(network_report(options, arguments.profile, in_json=arguments.json))
    return 0
