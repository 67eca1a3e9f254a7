"""Plays stories against an API server: sends what was sent, and gives back the answers in comparable form."""

import gzip
import json
import os
import queue
import random
import re
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from localcluster.apiserver.stories.normal import Normalizer, without_our_warnings

Json = dict[str, Any]
_RECORDED: Final = Path(__file__).parents[3] / "observed" / "apiserver" / "stories.jsonl.gz"
_HEADERS: Final = ("Content-Type", "Warning", "Allow", "Retry-After")
_QUIET: Final = 0.8
_LONGEST: Final = 20.0
_BIG_SENT: Final = 100_000
_LETTERS: Final = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True)
class Story:
    """Requests that follow each other, with the answers that were recorded."""

    name: str
    area: str
    steps: list[Json]
    namespace: bool
    cleanup: list[str]


def stories() -> list[Story]:
    lines = gzip.decompress(_RECORDED.read_bytes()).splitlines()
    return [
        Story(
            found["name"],
            found["area"],
            found["steps"],
            found.get("namespace", True),
            found.get("cleanup") or [],
        )
        for found in map(json.loads, lines)
    ]


def numbered(steps: list[Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """The steps with their numbers: those during a watch after it, as 3.1, 3.2."""
    for number, step in enumerate(steps, start=1):
        yield f"{prefix}{number}", step
        yield from numbered(step.get("during") or [], f"{prefix}{number}.")


@cache
def _unverified() -> ssl.SSLContext:
    """For a server whose certificate is not signed. Making one takes long."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@dataclass(frozen=True)
class Server:
    """Where the server is, and how to get in."""

    url: str
    token: str
    kubeconfig: Path
    cache: Path

    def connection(self, timeout: float = 30.0) -> HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=_unverified())

    def send(
        self, connection: HTTPConnection, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> None:
        connection.request(
            method, path, body=body, headers={"Authorization": f"Bearer {self.token}", **headers}
        )


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None


class Player:
    """Plays one story."""

    def __init__(self, server: Server, story: Story) -> None:
        rng = random.Random()
        self._server = server
        self._story = story
        self._ident = "".join(
            rng.choices("bcdfghjklmnpqrstvwxz", k=2) + rng.choices("bcdfghjkmnpqrs2456789", k=6)
        )
        self._normal = Normalizer(self._ident, server.url)
        self._saved: dict[str, Any] = {}
        self._answers: dict[str, Json] = {}

    def play(self) -> dict[str, Json]:
        """The answers by the numbers of their steps."""
        namespace = f"st-{self._ident}"
        if self._story.namespace:
            self._quietly("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            self._quietly("POST", path, {"metadata": {"name": "default"}})
        try:
            self._run(self._story.steps, "")
        finally:
            for path in self._story.cleanup:
                self._quietly("DELETE", str(self._filled(path)))
            if self._story.namespace:
                self._quietly("DELETE", f"/api/v1/namespaces/{namespace}")
        return self._answers

    def _run(self, steps: list[Json], prefix: str) -> None:
        for number, step in enumerate(steps, start=1):
            label = f"{prefix}{number}"
            time.sleep(step.get("pause") or 0)
            if "kubectl" in step:
                self._answers[label] = self._kubectl(step)
            elif step.get("watch"):
                self._watch(step, label)
            else:
                self._answers[label] = self._ask(step)

    def _quietly(self, method: str, path: str, body: Json | None = None) -> None:
        text = None if body is None else json.dumps(body).encode()
        connection = self._server.connection()
        try:
            self._server.send(connection, method, path, {"Content-Type": "application/json"}, text)
            connection.getresponse().read()
        finally:
            connection.close()

    def _request(self, step: Json) -> _Request:
        headers = {"Accept": "application/json", **(self._filled(step.get("headers")) or {})}
        body = self._body(step)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        path = str(self._filled(step["path"]))
        if step.get("query"):
            path += "?" + urlencode(self._filled(step["query"]), doseq=True)
        return _Request(step["method"], path, headers, body)

    def _body(self, step: Json) -> bytes | None:
        if "raw" in step:
            return str(self._filled(step["raw"])).encode()
        if "big" in step:
            data = {"k": "x" * step["big"]}
            named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}}
            return json.dumps({**named, "data": data}).encode()
        if "edit" in step:
            edited = _merged(self._value(step["edit"]["of"]), self._filled(step["edit"]["merge"]))
            return json.dumps(edited).encode()
        return json.dumps(self._filled(step["body"])).encode() if "body" in step else None

    def _ask(self, step: Json) -> Json:
        request = self._request(step)
        end = time.monotonic() + step.get("retry", 0)
        while True:
            connection = self._server.connection()
            try:
                self._server.send(connection, request.method, request.path, request.headers, request.body)
                response = connection.getresponse()
                raw = response.read()
            except (OSError, HTTPException) as error:
                return {"error": type(error).__name__}
            finally:
                connection.close()
            if time.monotonic() > end or response.status == step.get("retry_until", 200):
                break
            time.sleep(0.2)
        if step.get("save") is not None:
            self._saved[step["save"]] = _json_or_none(raw)
        return self._answer(response, raw, (request.body or b"").decode("utf-8", "replace")[:_BIG_SENT])

    def _answer(self, response: HTTPResponse, raw: bytes, sent: str = "") -> Json:
        body = self._normal.body(raw, response.getheader("Content-Type", ""), sent)
        return {"status": response.status, "headers": self._headers(response), "body": body}

    def _headers(self, response: HTTPResponse) -> dict[str, str]:
        found = {name: without_our_warnings(response.headers.get_all(name) or []) for name in _HEADERS}
        return {name: self._normal.header(values) for name, values in found.items() if values}

    def _watch(self, step: Json, label: str) -> None:
        request = self._request(step)
        longest = step.get("max", _LONGEST)
        connection = self._server.connection(longest)
        socket = None
        try:
            self._server.send(connection, request.method, request.path, request.headers, None)
            socket = connection.sock
            response = connection.getresponse()
            if response.status != 200:
                self._answers[label] = self._answer(response, response.read())
                self._run(step.get("during") or [], f"{label}.")
                return
            headers = self._headers(response)
            lines: queue.Queue[bytes] = queue.Queue()
            threading.Thread(target=_read_lines, args=(response, lines), daemon=True).start()
            self._answers[label] = {}
            self._run(step.get("during") or [], f"{label}.")
            events, closed = self._events(lines, step, longest)
            answer: Json = {"status": 200, "headers": headers, "events": events}
            self._answers[label] = {**answer, "closed": closed} if step.get("to_end") else answer
        finally:
            _shut(socket)
            connection.close()

    def _events(self, lines: "queue.Queue[bytes]", step: Json, longest: float) -> tuple[list[Any], bool]:
        events: list[Any] = []
        end = time.monotonic() + longest
        while time.monotonic() < end:
            try:
                line = lines.get(timeout=step.get("quiet", _QUIET))
            except queue.Empty:
                if step.get("to_end"):
                    continue
                return events, False
            if not line:
                return events, True
            event = _json_or_none(line)
            if event is None:
                events.append(self._normal.text(line.decode("utf-8", "replace")))
                continue
            metadata = (event.get("object") or {}).get("metadata") or {}
            if event.get("type") == "BOOKMARK":
                if "k8s.io/initial-events-end" not in (metadata.get("annotations") or {}):
                    continue
                metadata["resourceVersion"] = "<rv:list>"
            events.append(self._normal.data(event))
        return events, False

    def _kubectl(self, step: Json) -> Json:
        stdin = self._filled(step["stdin"]) if "stdin" in step else None
        if stdin is not None and not isinstance(stdin, str):
            stdin = "\n".join(map(json.dumps, stdin if isinstance(stdin, list) else [stdin]))
        with tempfile.TemporaryDirectory() as home:
            environment = {
                "PATH": os.environ.get("PATH", ""),
                "HOME": home,
                "TMPDIR": home,
                "TZ": "UTC",
                "KUBECONFIG": str(self._server.kubeconfig),
            }
            words = map(str, self._filled(step["kubectl"]))
            command = ["kubectl", "--cache-dir", str(self._server.cache), "-n", f"st-{self._ident}", *words]
            try:
                done = subprocess.run(
                    command,
                    input=stdin,
                    capture_output=True,
                    text=True,
                    timeout=step.get("max", 30),
                    env=environment,
                    cwd=home,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"error": "Timeout"}
        keep, errors = step.get("keep", ""), self._normal.output(done.stderr)
        data = _json_or_none(done.stdout.encode()) if keep == "json" else None
        if data is not None:
            return {"rc": done.returncode, "json": self._normal.data(data), "stderr": errors}
        return {"rc": done.returncode, "stdout": self._normal.output(done.stdout, keep), "stderr": errors}

    def _filled(self, value: Any) -> Any:
        """A value of a step with what stands for something filled in."""
        if isinstance(value, dict):
            return {self._filled(key): self._filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        if not isinstance(value, str) or "{{" not in value:
            return value
        alone = re.fullmatch(r"\{\{([^{}]+)\}\}", value)
        if alone:
            return self._value(alone[1])
        return re.sub(r"\{\{([^{}]+)\}\}", lambda found: str(self._value(found[1])), value)

    def _value(self, name: str) -> Any:
        if name in ("id", "ns"):
            return self._ident if name == "id" else f"st-{self._ident}"
        saved, _, path = name.partition(":")
        value = self._saved.get(saved)
        for part in path.split(".") if path else ():
            try:
                value = value[int(part) if isinstance(value, list) else part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return f"missing-{path}"
        return f"missing-{name}" if value is None else value


def _shut(socket: Any) -> None:
    """Wake up the reader of a connection: closing it would wait for them."""
    if socket is not None:
        with suppress(OSError):
            socket.shutdown(SHUT_RDWR)


def _read_lines(response: HTTPResponse, lines: "queue.Queue[bytes]") -> None:
    try:
        while line := response.readline():
            if line.strip():
                lines.put(line)
    except (OSError, HTTPException, ValueError, AttributeError):
        pass
    finally:
        lines.put(b"")


def _json_or_none(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _merged(base: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
