"""The server as a process that can be killed, and the plainest of clients."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waiting import PATIENCE

TOKEN = "the-token"
_START = "from stowplan.cli.hosts.apiserver import apiserver; apiserver()"


class Server:
    """`stowplan apiserver --data-dir` in a separate process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", _START, "--data-dir", str(folder / "data"), "--insecure-http"]
        command += ["--token", TOKEN, "--kubeconfig-out", str(folder / "kubeconfig")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), line
        self.port = int(line.strip().rpartition(":")[2])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> int:
        self._process.terminate()
        _, errors = self._process.communicate()
        assert not errors, errors
        return self._process.returncode

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None
) -> tuple[int, dict[str, Any]]:
    """One request over a connection that is kept. Raises OSError or HTTPException if no answer comes."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def watch(connection: http.client.HTTPConnection, path: str) -> Iterator[dict[str, Any]]:
    """The events of a watch, until the server ends it or dies."""
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        for line in connection.getresponse():
            if line.endswith(b"\n"):
                yield json.loads(line)
    except (OSError, http.client.HTTPException):
        return
