"""The wheel as its users get it: installed alone into an empty virtualenv, then used (`make wheel-trial`).

It downloads the dependencies and takes a minute, so it is a separate program and no test:

    python tests/deploy/trial.py dist/stowplan-0.1.0-py3-none-any.whl python3.11 python3.12

With `--lowest` the oldest versions of the dependencies that pyproject.toml allows are installed.
"""

import http.cookiejar
import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

LIMIT: Final = 180.0
"""Seconds for any one step."""

MANIFESTS: Final = """
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: default}
spec: {containers: [{name: main, image: big, resources: {requests: {cpu: "100"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ours, namespace: default}
spec: {schedulerName: second, containers: [{name: main, image: ours}]}
"""
SECOND: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: kubeconfig}
profiles: [{schedulerName: second}]
"""
_AS_JSON: Final = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
DEVELOPMENT: Final = {"hypothesis", "pytest", "mypy", "ruff", "kubernetes", "playwright", "hatchling"}


class Trial:
    """A virtualenv with the wheel, and an empty directory to work in."""

    def __init__(self, wheel: Path, python: str, folder: Path, *, lowest: bool) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.run([python, "-m", "venv", str(folder / "venv")])
        pins = [part.replace(">=", "==") + ".*" for part in _requirements(wheel)] if lowest else []
        self.run([str(self.bin / "pip"), "install", "--quiet", str(wheel), *pins])
        (folder / "app.yaml").write_text(MANIFESTS)
        (folder / "second.yaml").write_text(SECOND)

    def run(self, command: Sequence[str], *, code: int = 0) -> str:
        """Output of a command. Its exit code must be as expected."""
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def stowplan(self, *arguments: str, code: int = 0) -> str:
        return self.run([str(self.bin / "stowplan"), *arguments], code=code)

    @contextmanager
    def running(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """A command that runs until it is stopped."""
        with (self.folder / f"{arguments[0]}.log").open("w") as log:
            process = subprocess.Popen(
                [str(self.bin / "stowplan"), *arguments],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            try:
                yield process
            finally:
                process.terminate()
                process.communicate(timeout=LIMIT)


def _requirements(wheel: Path) -> list[str]:
    """`name>=version` of each dependency that is not for an extra."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    found = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*?(>=[\d.]+)[^;\n]*$", metadata, flags=re.MULTILINE)
    return ["".join(parts) for parts in found]


def commands(trial: Trial) -> None:
    """Every command at least shows its help, and those that need no cluster work."""
    listed = re.findall(r"^  ([a-z]+)  ", trial.stowplan("--help"), flags=re.MULTILINE)
    assert {"up", "run", "explain", "version"} <= set(listed), listed
    for name in listed:
        trial.stowplan(name, "--help")
    json.loads(trial.stowplan("version", "-o", "json"))
    trial.stowplan("man", "--directory", "man")
    trial.stowplan("demo")
    trial.stowplan("config", "validate", "second.yaml")
    trial.stowplan("lab", "chaos", "--seeds", "1")
    trial.stowplan("lab", "fuzz", "--seeds", "1", "--nodes", "10", "--size", "20")
    trial.stowplan("bench", "engine", "--nodes", "20", "--pods", "20")


def cluster(trial: Trial) -> None:
    """`up` with its page, `explain`, `kubectl-why`, `pending`, and `run` as a second scheduler."""
    with trial.running("up", "--load", "app.yaml", "--kubeconfig-out", "kubeconfig") as up:
        assert up.stdout is not None
        address = _page_address(iter(up.stdout.readline, ""))
        _page(address)
        kubeconfig = ("--kubeconfig", "kubeconfig")
        assert "Insufficient cpu" in trial.stowplan("explain", "pod/big", *kubeconfig)
        assert "Insufficient cpu" in trial.run([str(trial.bin / "kubectl-why"), "pod/big", *kubeconfig])
        assert "Insufficient cpu" in trial.stowplan("explain", "--offline", "pod/big", *kubeconfig)
        assert "would work" in trial.stowplan("doctor", *kubeconfig)
        assert "default/big" in trial.stowplan("pending", *kubeconfig)
        get = _reader(json.loads(trial.run([str(trial.bin / "python"), "-c", _AS_JSON, "kubeconfig"])))
        assert "nodeName" not in get("/api/v1/namespaces/default/pods/ours")["spec"]
        with trial.running("run", "--config", "second.yaml", "--secure-port", "0"):
            _until(lambda: "nodeName" in get("/api/v1/namespaces/default/pods/ours")["spec"])


def _page_address(lines: Iterator[str]) -> str:
    for line in lines:
        found = re.search(r"https?://127\.0\.0\.1:\d+/\S*token=\S+", line)
        if found:
            return found.group()
    raise AssertionError("up printed no address of the page")


def _page(address: str) -> None:
    """The page and every file it refers to."""
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(jar)
    with opener.open(address, timeout=LIMIT) as answer:
        page, base = answer.read().decode(), answer.geturl()
    files = re.findall(r'(?:src|href)="([^":]+\.(?:js|css))"', page)
    assert files, page
    for file in files:
        with opener.open(urljoin(base, file), timeout=LIMIT) as answer:
            assert answer.read()


def _reader(config: Any) -> Callable[[str], Any]:
    """GET of a path of the API server of a kubeconfig."""
    server = config["clusters"][0]["cluster"]["server"]
    token = config["users"][0]["user"]["token"]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def get(path: str) -> Any:
        request = urllib.request.Request(server + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=LIMIT, context=context) as answer:
            return json.load(answer)

    return get


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def main(arguments: Sequence[str]) -> None:
    lowest = "--lowest" in arguments
    wheel, *pythons = [part for part in arguments if part != "--lowest"]
    for python in pythons or [sys.executable]:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(Path(wheel).resolve(), python, Path(folder), lowest=lowest)
            installed = json.loads(trial.run([str(trial.bin / "pip"), "list", "--format", "json"]))
            names = {entry["name"].lower(): entry["version"] for entry in installed}
            assert not DEVELOPMENT & names.keys(), names
            commands(trial)
            cluster(trial)
            version = trial.run([str(trial.bin / "python"), "--version"]).strip()
            print(f"{version}: works, with {len(names) - 1} packages: {names}")


if __name__ == "__main__":
    main(sys.argv[1:])
