"""Requests made from the published OpenAPI documents, and what counts as a finding."""

from http.client import RemoteDisconnected
from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.lab.fuzz.openapi import (
    FuzzedServer,
    FuzzRequest,
    OpenApiRun,
    Response,
    check_case,
    is_alive,
    serving,
    sharpened,
)


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    with serving() as server:
        run = OpenApiRun()
        is_alive(server, run)
        assert run.findings == []
        return server.documents()


def operations(documents: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    return [
        (path, method, operation, document)
        for document in documents.values()
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]


def test_operations_say_what_they_take(documents: dict[str, Any]) -> None:
    found = operations(documents)
    assert len(found) > 500
    for path, method, operation, document in found:
        item = document["paths"][path]
        within = [parameter["name"] for parameter in item.get("parameters", ())]
        assert within == [name for name in ("namespace", "name") if f"{{{name}}}" in path], path
        is_stream = path.rpartition("/")[2] in ("attach", "exec", "portforward", "proxy")
        assert ("requestBody" in operation) == (
            method != "get" and not (is_stream and method in ("post", "put"))
        )
    identifiers = [operation["operationId"] for _, _, operation, _ in found]
    assert len(set(identifiers)) == len(identifiers)


def test_every_schema_that_is_named_is_there(documents: dict[str, Any]) -> None:
    def names(data: Any) -> set[str]:
        if isinstance(data, dict):
            own = {data["$ref"].rpartition("/")[2]} if isinstance(data.get("$ref"), str) else set()
            return own.union(*map(names, data.values()))
        return set().union(*map(names, data)) if isinstance(data, list) else set()

    for place, document in documents.items():
        assert names(document) <= document["components"]["schemas"].keys(), place


def test_sharpened_documents_hit_objects(documents: dict[str, Any]) -> None:
    found = sharpened(documents["apis/apps/v1"])
    item = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert "default" in item["parameters"][0]["schema"]["anyOf"][0]["enum"]
    patch = item["patch"]["requestBody"]["content"]
    deployment = {"$ref": "#/components/schemas/io.k8s.api.apps.v1.Deployment"}
    assert patch["application/merge-patch+json"]["schema"] == deployment
    assert patch["application/json-patch+json"]["schema"]["type"] == "object"
    assert list(item["put"]["requestBody"]["content"]) == ["application/json"]
    kind = found["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]["properties"]["kind"]
    assert kind["enum"] == ["Deployment"]
    assert documents["apis/apps/v1"]["paths"] != found["paths"]


class Scripted(FuzzedServer):
    """Answers as scripted."""

    def __init__(self, answer: Response | Exception, *logged: str) -> None:
        self._answer = answer
        self._logged = list(logged)

    def ask(self, request: FuzzRequest) -> Response:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def errors(self) -> list[str]:
        found, self._logged = self._logged, []
        return found


CASE = SimpleNamespace(
    operation=SimpleNamespace(label="GET /api/v1/pods"),
    as_transport_kwargs=lambda base_url: {
        "method": "GET",
        "url": f"{base_url}/api/v1/pods",
        "params": {"limit": 1},
    },
)
JSON = "application/json"


@pytest.mark.parametrize(
    ("server", "rules"),
    [
        (Scripted(Response(404, JSON, b'{"kind":"Status","code":404}')), []),
        (Scripted(Response(500, JSON, b"{}")), ["no error of the server"]),
        (Scripted(Response(500, JSON, b'{"message":"target.name: Required value","code":500}')), []),
        (
            Scripted(Response(422, JSON, b'{"kind":"Status","code":400}')),
            ["a refusal is a Status with its code"],
        ),
        (Scripted(Response(400, JSON, b"{")), ["a refusal is JSON"]),
        (Scripted(RemoteDisconnected("gone")), ["every request is answered"]),
        (Scripted(TimeoutError("timed out")), ["every request is answered"]),
        (Scripted(Response(404, "text/plain", b""), "GET /: KeyError()"), ["nothing is logged as an error"]),
    ],
)
def test_what_counts_as_a_finding(server: Scripted, rules: list[str]) -> None:
    run = OpenApiRun()
    for _ in range(2):
        check_case(server, CASE, run)
    assert [finding.rule for finding in run.findings] == rules
    assert run.requests == 2
