"""Requests made from the OpenAPI documents that the embedded API server publishes, with schemathesis.

Every operation of every document gets requests that follow its schema and requests that do not. No answer may
be a server error, break off, be late or violate its own schema, no error may be logged, and the server must
still answer afterwards. The documents say little about names, so a request would miss all objects: they are
`sharpened` first, so that names are few and bodies are about objects that may exist.
"""

import asyncio
import copy
import http.client
import importlib
import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import RealClock

PATIENCE: Final = 30.0
"""Seconds for an answer. Requests wait for nothing, but other processes use the machine, too."""

_NAMES: Final = ("a", "b", "default")
_NAMESPACES: Final = ("default", "kube-system", "nowhere")
_RARELY_RIGHT: Final = ("generateName", "managedFields", "namespace")
"""Fields of metadata for which an object is refused unless they have very few values."""
_LABELS: Final[Json] = {
    "type": "object",
    "properties": {"app": {"type": "string", "enum": list(_NAMES)}},
    "additionalProperties": False,
}
_SETTLING: Final = 10.0
_LOST: Final = (http.client.HTTPException, OSError, ValueError)


class FuzzRequest(NamedTuple):
    """A request as it is sent."""

    operation: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None

    def __str__(self) -> str:
        shown = "" if not self.body else f" {self.body[:300]!r}"
        return f"{self.method} {self.path}{shown}"


class Response(NamedTuple):
    """An answer as it came."""

    code: int
    content_type: str
    body: bytes


class OpenApiFinding(NamedTuple):
    """A request that was answered as it must not be."""

    rule: str
    detail: str
    request: FuzzRequest | None

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}" + (f": {self.request}" if self.request else "")


@dataclass
class OpenApiRun:
    """The result of a campaign."""

    operations: int = 0
    requests: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    findings: list[OpenApiFinding] = field(default_factory=list)
    _known: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, rule: str, detail: str, request: FuzzRequest | None = None) -> None:
        """Keep a finding unless the operation has one like it."""
        key = (rule, detail[:60], "" if request is None else request.operation)
        if key not in self._known:
            self._known.add(key)
            self.findings.append(OpenApiFinding(rule, detail, request))


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        self.lines.append(record.getMessage() if problem is None else f"{record.getMessage()}: {problem!r}")


class FuzzedServer:
    """An embedded API server in a thread, without TLS, and a connection to it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        store = Store(RealClock(), random.Random(1), admission=ClusterAdmission(), fields=FieldManager())
        create_bootstrap_objects(store)
        self._server = ApiServer(store, Listening(plain=True, token="fuzz"), rng=random.Random(1))
        self._wait(self._server.start())
        self._errors = _Errors()
        logging.getLogger().addHandler(self._errors)

    def _wait(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def stop(self) -> None:
        logging.getLogger().removeHandler(self._errors)
        self._wait(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SETTLING)
        self._loop.close()

    def errors(self) -> list[str]:
        """Lines logged as errors since the last call."""
        found, self._errors.lines = self._errors.lines, []
        return found

    def ask(self, request: FuzzRequest) -> Response:
        """Send a request. A watch is left as soon as it has begun. Raises `OSError` or `HTTPException`."""
        host, _, port = self._server.url.partition("//")[2].partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        try:
            headers = {**request.headers, "Authorization": "Bearer fuzz"}
            connection.request(request.method, request.path, request.body, headers)
            response = connection.getresponse()
            streams = response.status == 200 and "watch" in request.path and response.chunked
            body = b"" if streams else response.read()
            return Response(response.status, response.headers.get("Content-Type", ""), body)
        finally:
            connection.close()

    def documents(self) -> dict[str, Json]:
        """The documents by group and version, such as `apis/apps/v1`."""
        index = json.loads(self.ask(_get("/openapi/v3")).body)["paths"]
        return {
            place: json.loads(self.ask(_get(entry["serverRelativeURL"])).body)
            for place, entry in sorted(index.items())
        }


def _get(path: str) -> FuzzRequest:
    return FuzzRequest("", "GET", path, {}, None)


@contextmanager
def serving() -> Iterator[FuzzedServer]:
    """A server for a while."""
    server = FuzzedServer()
    try:
        yield server
    finally:
        server.stop()


def sharpened(document: Json) -> Json:
    """A document whose requests hit objects: few names, JSON as the type of bodies, patches by kind."""
    found = copy.deepcopy(document)
    schemas = found["components"]["schemas"]
    for name, schema in schemas.items():
        if name.endswith(".ObjectMeta"):
            schema["properties"]["name"] = {"type": "string", "enum": list(_NAMES)}
            schema["required"] = ["name"]
            for field_name in _RARELY_RIGHT:
                del schema["properties"][field_name]
            for field_name in ("labels", "annotations"):
                schema["properties"][field_name] = copy.deepcopy(_LABELS)
            schema["properties"]["finalizers"]["items"] = {"type": "string", "enum": ["example.com/f"]}
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
            schema["properties"]["apiVersion"] = {"type": "string", "enum": [version]}
            schema["properties"]["kind"] = {"type": "string", "enum": [kind["kind"]]}
            schema["required"] = sorted({*schema.get("required", ()), "metadata"})
    for item in found["paths"].values():
        for parameter in item.get("parameters", ()):
            known = _NAMESPACES if parameter["name"] == "namespace" else _NAMES
            parameter["schema"] = {"anyOf": [{"type": "string", "enum": list(known)}, {"type": "string"}]}
        for method, operation in item.items():
            if method != "parameters" and "requestBody" in operation:
                _sharpen_body(operation, item)
    return found


def _sharpen_body(operation: Json, item: Json) -> None:
    content = operation["requestBody"]["content"]
    if "*/*" in content:
        content["application/json"] = content.pop("*/*")
    whole = item.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json")
    for kind in content:
        if whole is not None and kind in _PATCHES:
            content[kind] = copy.deepcopy(whole)


_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def run_openapi(
    server: FuzzedServer,
    documents: Iterable[Json],
    *,
    seconds: float,
    examples: int,
    seed: int,
    show: Callable[[str], None],
) -> OpenApiRun:
    """Send requests for the operations of the documents, in rounds of any order, until the time is over."""
    run = OpenApiRun()
    rng = random.Random(seed)
    ends = time.monotonic() + seconds
    chosen = [pair for document in documents for pair in _operations(document)]
    run.operations = len(chosen)
    turn = 0
    while chosen and time.monotonic() < ends:
        rng.shuffle(chosen)
        for operation, published in chosen:
            if time.monotonic() >= ends:
                break
            show(operation.label)
            _run_operation(server, operation, published, run, examples, seed + turn)
        turn += 1
    return run


def _operations(document: Json) -> list[tuple[Any, Any]]:
    """The operations of a document: sharpened, for requests, and as it is published, for answers."""
    schemathesis: Any = importlib.import_module("schemathesis")
    both = (schemathesis.openapi.from_dict(one) for one in (sharpened(document), document))
    requested, published = ([found.ok() for found in schema.get_all_operations()] for schema in both)
    return list(zip(requested, published, strict=True))


def _run_operation(
    server: FuzzedServer, operation: Any, published: Any, run: OpenApiRun, examples: int, seed: int
) -> None:
    hypothesis: Any = importlib.import_module("hypothesis")
    modes: Any = importlib.import_module("schemathesis").GenerationMode
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    for mode in (modes.POSITIVE, modes.NEGATIVE):

        def ask(case: Any) -> None:
            check_case(server, case, run, published)

        test = hypothesis.given(case=operation.as_strategy(mode))(ask)
        try:
            hypothesis.seed(seed)(settings(test))()
        except (hypothesis.errors.Unsatisfiable, hypothesis.errors.InvalidArgument):
            # An operation without parameters cannot be asked for wrongly.
            continue


def check_case(server: FuzzedServer, case: Any, run: OpenApiRun, published: Any = None) -> None:
    """Send one request and look at its answer. `published`: the operation that has the schema of answers."""
    request = _request_of(case)
    if request is None:
        return
    run.requests += 1
    try:
        response = server.ask(request)
    except _LOST as error:
        run.add("every request is answered", f"{type(error).__name__}: {error}", request)
        return
    run.codes[response.code] += 1
    for line in server.errors():
        run.add("nothing is logged as an error", line, request)
    if response.code >= 500:
        if not _is_upstreams(response):
            shown = response.body[:200].decode(errors="replace")
            run.add("no error of the server", f"{response.code}: {shown}", request)
    elif response.code >= 400 and response.content_type.startswith("application/json"):
        _check_status(response, request, run)
    elif response.code in (200, 201) and response.body:
        _check_schema(published, response, request, run)


def _is_upstreams(response: Response) -> bool:
    """A 500 of kube-apiserver, too: a binding without a target, an error that has no reason there."""
    return b'"message":"target.' in response.body and b'"reason"' not in response.body


def _request_of(case: Any) -> FuzzRequest | None:
    """The request of a case, None for one that cannot be sent."""
    requests: Any = importlib.import_module("requests")
    try:
        prepared = requests.Request(**case.as_transport_kwargs(base_url="http://server")).prepare()
    except (ValueError, importlib.import_module("schemathesis").errors.SerializationNotPossible):
        return None
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    headers = {name: str(value) for name, value in prepared.headers.items() if name != "Content-Length"}
    if not all(value.isprintable() and value.isascii() for value in (*headers, *headers.values())):
        return None
    return FuzzRequest(case.operation.label, prepared.method, prepared.path_url, headers, body)


def _check_status(response: Response, request: FuzzRequest, run: OpenApiRun) -> None:
    """A refusal is a Status with the code of the answer."""
    try:
        status = json.loads(response.body)
    except ValueError as error:
        run.add("a refusal is JSON", str(error), request)
        return
    if (status.get("kind"), status.get("code")) != ("Status", response.code):
        run.add("a refusal is a Status with its code", response.body[:200].decode(errors="replace"), request)


def _check_schema(published: Any, response: Response, request: FuzzRequest, run: OpenApiRun) -> None:
    """An object that is answered has the schema that its operation says."""
    if published is None or not response.content_type.startswith("application/json"):
        return
    transport: Any = importlib.import_module("schemathesis.core.transport")
    requests: Any = importlib.import_module("requests")
    shown = transport.Response(
        status_code=response.code,
        headers={"content-type": [response.content_type]},
        content=response.body,
        request=requests.Request("GET", "http://server/").prepare(),
        elapsed=0.0,
        verify=False,
    )
    try:
        published.validate_response(shown)
    except AssertionError as error:
        run.add("an answer has its schema", str(error).split("\n\n")[0][:300], request)
    except BaseExceptionGroup as group:
        run.add("an answer has its schema", str(group.exceptions[0])[:300], request)


def is_alive(server: FuzzedServer, run: OpenApiRun) -> None:
    """The server still answers, and nothing of what it did later went wrong."""
    try:
        code = server.ask(_get("/api/v1/namespaces")).code
    except _LOST as error:
        run.add("the server still answers", str(error))
        return
    if code != 200:
        run.add("the server still answers", str(code))
    for line in server.errors():
        run.add("nothing is logged as an error", line)
