"""Manifests of other projects, each applied to a fresh `stowplan up`, compared with what is expected of them.

`install` applies the manifests of one project and waits; `expectations` compares. `expected.yaml` is our list
for public projects, whose manifests are not part of this repository.
"""

from stowplan.lab.software.expectations import (
    ExpectationError,
    Expected,
    differences,
    ours,
    read_expected,
    report_of,
)
from stowplan.lab.software.install import Installed, Project, install, projects_in

__all__ = [
    "ExpectationError",
    "Expected",
    "Installed",
    "Project",
    "differences",
    "install",
    "ours",
    "projects_in",
    "read_expected",
    "report_of",
]
