"""Writes the software bill of materials of the wheel: what is bundled for the browser, and what pip installs with it.

CycloneDX 1.6, as JSON; the wheel has it in its .dist-info/sboms, where scanners look (PEP 770). What is bundled has a
version, and of what pip installs the wheel says only which versions it takes. The same source gives the same bytes, so
there is no time and no serial number in it.

Usage: python labextension/sbom.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
SBOM = ROOT / "sbom.cdx.json"
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
# Extras of those who develop this project.
_OURS = ("bench", "docs", "test", "test-frameworks")
# As notice.mjs writes them.
_BUNDLED = re.compile(r"^(?P<name>\S+) (?P<version>\S+)\nSPDX-License-Identifier: (?P<licence>.+)$", re.MULTILINE)


def sbom() -> str:
    """Return the bill of materials of this source, as JSON."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = _VERSION.findall((ROOT / "jupyter_ddl" / "__init__.py").read_text())[0]
    wheel = Component(
        type=ComponentType.LIBRARY,
        name=project["name"],
        version=version,
        purl=PackageURL("pypi", name=project["name"].replace("_", "-"), version=version),
        bom_ref=project["name"],
        licenses=[LicenseFactory().make_with_id(project["license"])],
        components=bundled((ROOT / "NOTICE").read_text()),
    )
    needed = list(required(project["dependencies"], ComponentScope.REQUIRED))
    known = {component.name for component in needed}
    extras = [one for extra, needs in project["optional-dependencies"].items() if extra not in _OURS for one in needs]
    for component in required(extras, ComponentScope.OPTIONAL):
        if component.name not in known:
            known.add(component.name)
            needed.append(component)
    made = Bom(
        metadata=BomMetaData(component=wheel),
        components=needed,
        dependencies=[Dependency(wheel.bom_ref, [Dependency(one.bom_ref) for one in needed])],
    )
    document = json.loads(JsonV1Dot6(made).output_as_string())
    # Of this call, and not of the source.
    del document["serialNumber"], document["metadata"]["timestamp"]
    return json.dumps(document, indent=2) + "\n"


def bundled(notice: str) -> list[Component]:
    """Return the npm packages that NOTICE names, as components."""
    found = []
    for package in _BUNDLED.finditer(notice):
        group, _, name = package["name"].rpartition("/")
        found.append(
            Component(
                type=ComponentType.LIBRARY,
                name=name,
                group=group or None,
                version=package["version"],
                purl=PackageURL("npm", group or None, name, package["version"]),
                bom_ref=f"npm/{package['name']}",
                licenses=[LicenseFactory().make_from_string(package["licence"])],
            )
        )
    return found


def required(requirements: Iterable[str], scope: ComponentScope) -> Iterator[Component]:
    """Yield what pip installs for requirements, as components; extras of our own stand for what they require."""
    for requirement in map(Requirement, requirements):
        if requirement.name == "jupyter_ddl":
            continue
        told = {"versions": str(requirement.specifier), "where": str(requirement.marker or "")}
        yield Component(
            type=ComponentType.LIBRARY,
            name=requirement.name,
            scope=scope,
            purl=PackageURL("pypi", name=requirement.name.lower().replace("_", "-")),
            bom_ref=f"pypi/{requirement.name}",
            properties=[Property(name=f"jupyter_ddl:{name}", value=value) for name, value in told.items() if value],
        )


def main(arguments: list[str]) -> int:
    """Write it, or with --check say whether the one that is there is of this source."""
    if arguments != ["--check"]:
        SBOM.write_text(sbom())
        return 0
    if SBOM.is_file() and SBOM.read_text() == sbom():
        return 0
    print(f"{SBOM.name} must be of this source. Received: another. Run: make sbom", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
