"""Try the wheel on Pythons of other Debian releases, which this machine does not have (`make python-trials`).

    python tests/deploy/pythons.py dist/stowplan-0.1.0-py3-none-any.whl 3.13 3.14

`mmdebstrap` unpacks a Python and its libraries into build/pythons, where they stay for the next time; nothing
of them is installed here. `trial.py` then runs in them by chroot, which needs root or user namespaces. Debian
has no Python 3.12: a job of CI tries that one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
ROOTS: Final = ROOT / "build" / "pythons"
MIRROR: Final = "http://deb.debian.org/debian"
SUITES: Final = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
"""The Debian release that has a Python. That of 3.14 is no release yet: a mirror may have an older list."""

_CERTIFICATES: Final = Path("etc/ssl/certs/ca-certificates.crt")


def unpacked(version: str) -> Path:
    """The root of a Python, made if it is not there."""
    root = ROOTS / version
    if root.exists():
        return root
    making = ROOTS / f"{version}.part"
    shutil.rmtree(making, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    include = f"base-files,python{version},python{version}-venv,libstdc++6"
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={include}"]
    command += ['--aptopt=Acquire::Check-Valid-Until "false"', SUITES[version], str(making), MIRROR]
    subprocess.run(command, check=True)
    making.rename(root)
    return root


def prepared(version: str, wheel: Path) -> Path:
    """The root of a Python, with the wheel, the trial and what is needed to download."""
    root = unpacked(version)
    shutil.rmtree(root / "trial", ignore_errors=True)
    (root / "trial").mkdir()
    (root / _CERTIFICATES).parent.mkdir(parents=True, exist_ok=True)
    for file in (wheel, Path(__file__).with_name("trial.py")):
        shutil.copy(file, root / "trial")
    for file in (_CERTIFICATES, Path("etc/resolv.conf"), Path("etc/hosts")):
        if (Path("/") / file).exists():
            shutil.copy(Path("/") / file, root / file)
    return root


def tried(version: str, wheel: Path, more: Sequence[str]) -> None:
    """Run the trial by a Python; its exit code ends this program if it is not 0."""
    root = prepared(version, wheel)
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
    inside = [] if os.getuid() == 0 else ["unshare", "--map-root-user"]
    python = f"/usr/bin/python{version}"
    command = [*inside, chroot, str(root), python, "/trial/trial.py", f"/trial/{wheel.name}", python, *more]
    kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PIP_CERT": f"/{_CERTIFICATES}",
    }
    done = subprocess.run(command, env=kept | environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main(arguments: Sequence[str]) -> None:
    more = [part for part in arguments if part.startswith("--")]
    wheel, *versions = [part for part in arguments if part not in more]
    for version in versions:
        if version not in SUITES:
            sys.exit(f"{version}: expected one of {', '.join(SUITES)}")
        tried(version, Path(wheel).resolve(), more)


if __name__ == "__main__":
    main(sys.argv[1:])
