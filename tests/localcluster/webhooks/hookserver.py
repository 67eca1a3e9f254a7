"""A webhook as people write them: a small HTTPS server with a certificate of its own."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stowplan.server.serving import certificates
from stowplan.server.serving.certificates import Certificate

Json = dict[str, Any]
Answer = Callable[[Json], Any]
"""Makes the body of an answer from a review: data for JSON, bytes as they are."""

SERVICE = "hook.default.svc"


@lru_cache(maxsize=8)
def certificate(*hosts: str) -> Certificate:
    return certificates.self_signed("webhook", hosts, time.time())


class WebhookServer:
    """Answers reviews, by the path they are posted to. `reviews` are those that came, by path."""

    def __init__(self, port: int, made: Certificate) -> None:
        self.port = port
        self.certificate = made
        self.answers: dict[str, Answer] = {}
        self.reviews: list[tuple[str, Json]] = []
        self.hosts: list[str] = []
        self.released = threading.Event()

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self.certificate.certificate).decode()

    def requests(self, path: str) -> list[Json]:
        """The requests in the reviews that were sent to a path."""
        return [review["request"] for where, review in self.reviews if where == path]

    def service(self, path: str, **more: Any) -> Json:
        """Client configuration of the service `hook`."""
        return {
            "service": {"name": "hook", "namespace": "default", "path": path, **more},
            "caBundle": self.ca_bundle,
        }

    def url(self, path: str) -> Json:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca_bundle}


@contextmanager
def webhooks(*hosts: str, **answers: Answer) -> Iterator[WebhookServer]:
    """A running server; the answer `mutate` is for the path /mutate."""
    made = certificate(*(hosts or (SERVICE, "127.0.0.1")))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            found.hosts.append(self.headers["Host"])
            found.reviews.append((path, body))
            answer = found.answers.get(path.removeprefix("/"))
            if answer is None:
                self.send_error(404)
                return
            answered = answer(body)
            if callable(answered):
                answered(self)
                return
            text = answered if isinstance(answered, bytes) else json.dumps(answered).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that hang up are part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = made.context().wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    found = WebhookServer(server.server_address[1], made)
    found.answers.update(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def response(review: Json, **fields: Any) -> Json:
    """A review with its response."""
    answer = {"uid": review["request"]["uid"], **fields}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": answer}


def allow(review: Json) -> Json:
    return response(review, allowed=True)


def deny(message: str = "", **status: Any) -> Answer:
    def answer(review: Json) -> Json:
        given = {"status": {"message": message, **status}} if message or status else {}
        return response(review, allowed=False, **given)

    return answer


def patch(*operations: Json, **fields: Any) -> Callable[[Json], Json]:
    """Allows the request, with a JSON patch."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()

    def answer(review: Json) -> Json:
        return response(review, allowed=True, patch=text, patchType="JSONPatch", **fields)

    return answer


def labels(**added: str) -> Answer:
    """Adds labels to objects that may have none."""

    def answer(review: Json) -> Json:
        given = (review["request"]["object"]["metadata"].get("labels")) or {}
        return patch({"op": "add", "path": "/metadata/labels", "value": {**given, **added}})(review)

    return answer


def rule(
    *resources: str,
    operations: tuple[str, ...] = ("CREATE",),
    groups: tuple[str, ...] = ("*",),
    versions: tuple[str, ...] = ("*",),
) -> Json:
    return {
        "operations": [*operations],
        "apiGroups": [*groups],
        "apiVersions": [*versions],
        "resources": [*resources],
    }


def webhook(client: Json, *rules: Json, name: str = "hook.example.com", **more: Any) -> Json:
    return {
        "name": name,
        "clientConfig": client,
        "rules": [*rules],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configuration(kind: str, *hooks: Json, name: str = "test") -> Json:
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration, by the first word of its kind."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [*hooks],
    }
