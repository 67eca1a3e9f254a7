"""APIServices: those of the server, of custom resources, and of extension servers."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import Served, serving
from localcluster.customresources.definitions import DEFINITIONS, definition, version
from stowplan.api.catalogue import ENDPOINT_SLICES, SERVICES
from stowplan.api.requests import Json

WHERE = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as served:
        served.run(lambda store: served.server.handler.api_services.start())
        yield served


def available(api: Served, name: str) -> tuple[str, str, str]:
    body = api.ask("GET", f"{WHERE}/{name}").body
    found = next(one for one in body["status"]["conditions"] if one["type"] == "Available")
    return found["status"], found["reason"], found["message"]


LOCAL = ("True", "Local", "Local APIServices are always available")


def test_every_group_and_version_has_one_that_is_available(api: Served) -> None:
    listed = {one["metadata"]["name"]: one for one in api.ask("GET", WHERE).body["items"]}
    groups = api.ask("GET", "/apis").body["groups"]
    served = {f"{one['version']}.{group['name']}" for group in groups for one in group["versions"]}
    assert listed.keys() == served | {"v1."}
    assert available(api, "v1.") == available(api, "v1.apps") == LOCAL
    priority = {name: one["spec"]["groupPriorityMinimum"] for name, one in listed.items()}
    ordered = sorted(priority, key=lambda name: -priority[name])
    assert ordered[-1] not in ("v1.", "v1.apps")
    assert all(one["metadata"]["labels"] for one in listed.values())


def test_custom_resources_have_one_for_as_long_as_they_are_served(api: Served) -> None:
    versions = [version("v1"), {**version("v2"), "storage": False}]
    body = definition("sprockets", "api.example.com", versions=versions)
    assert api.ask("POST", DEFINITIONS, body).code == 201
    assert available(api, "v1.api.example.com") == available(api, "v2.api.example.com") == LOCAL
    spec = api.ask("GET", f"{WHERE}/v2.api.example.com").body["spec"]
    assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == (1000, 100)
    api.ask("DELETE", f"{WHERE}/v2.api.example.com")
    assert available(api, "v2.api.example.com") == LOCAL, "it is made again"
    api.ask("DELETE", f"{DEFINITIONS}/sprockets.api.example.com")
    assert api.ask("GET", f"{WHERE}/v1.api.example.com").code == 404
    assert api.ask("GET", f"{WHERE}/v2.api.example.com").code == 404


def remote(group: str, name: str, port: int = 443) -> Json:
    service = {"namespace": "default", "name": name, "port": port}
    priorities = {"groupPriorityMinimum": 100, "versionPriority": 100}
    return {
        "metadata": {"name": f"v1.{group}"},
        "spec": {"group": group, "version": "v1", "service": service, **priorities},
    }


def slice_of(name: str, **more: Any) -> Json:
    metadata = {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}}
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": [], **more}


def test_an_extension_server_says_step_by_step_what_is_missing(api: Served) -> None:
    name = "v1.ext.example.com"
    assert api.ask("POST", WHERE, remote("ext.example.com", "adapter")).code == 201
    missing = 'service/adapter in "default" is not present'
    assert available(api, name) == ("False", "ServiceNotFound", missing)
    service = {
        "metadata": {"name": "adapter", "namespace": "default"},
        "spec": {"ports": [{"port": 80, "name": "web"}]},
    }
    api.run(lambda store: store.create(SERVICES, service))
    assert available(api, name)[1:] == (
        "ServicePortError",
        'service/adapter in "default" is not listening on port 443',
    )
    ports = {"spec": {"ports": [{"port": 443, "name": "https"}]}}
    api.run(lambda store: store.patch(SERVICES, "default", "adapter", ports))
    assert available(api, name)[1] == "EndpointsNotFound"
    api.run(lambda store: store.create(ENDPOINT_SLICES, slice_of("adapter")))
    assert available(api, name)[1:] == (
        "MissingEndpoints",
        'endpointslices for service/adapter in "default" have no addresses with port name "https"',
    )
    full = {"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "https", "port": 8443}]}
    api.run(lambda store: store.patch(ENDPOINT_SLICES, "default", "adapter", full))
    status, reason, message = available(api, name)
    assert (status, reason) == ("False", "FailedDiscoveryCheck")
    assert "the pods of the service are simulated: nothing listens" in message
    api.run(lambda store: store.delete(SERVICES, "default", "adapter"))
    assert available(api, name)[1] == "ServiceNotFound"


def test_a_group_that_the_server_serves_itself_is_available(api: Served) -> None:
    body = remote("apps", "metrics-server")
    known = api.ask("GET", f"{WHERE}/v1.apps").body["metadata"]
    body["metadata"]["resourceVersion"] = known["resourceVersion"]
    assert api.ask("PUT", f"{WHERE}/v1.apps", body).code == 200
    assert available(api, "v1.apps")[0] == "True"
