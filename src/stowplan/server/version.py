"""The Kubernetes version of this scheduler, and the output of `--version`."""

import platform
import sys
from typing import Final

from stowplan import __version__
from stowplan.api.releases import DEFAULT, Release


def version_of(release: Release) -> str:
    """Version string of an installation that emulates a release."""
    return f"v{release.version}+stowplan.{__version__}"


VERSION: Final = version_of(DEFAULT)
"""The version of this installation, regardless of the emulated one."""

MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def version_answer(asked: str) -> str:
    """The output of `--version=<asked>`, empty if none was requested."""
    return {"true": f"Kubernetes {VERSION}", "raw": _everything()}.get(asked, "")


def _everything() -> str:
    """The build information, formatted as Go's version.Info."""
    major, minor = DEFAULT.minor
    fields = {
        "Major": major,
        "Minor": minor,
        "EmulationMajor": "",
        "EmulationMinor": "",
        "MinCompatibilityMajor": "",
        "MinCompatibilityMinor": "",
        "GitVersion": VERSION,
        "GitCommit": "",
        "GitTreeState": "",
        "BuildDate": "1970-01-01T00:00:00Z",
        "GoVersion": "",
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"{sys.platform}/{MACHINES.get(platform.machine(), platform.machine())}",
    }
    shown = ", ".join(f'{name}:"{value}"' for name, value in fields.items())
    return f"version.Info{{{shown}}}"
