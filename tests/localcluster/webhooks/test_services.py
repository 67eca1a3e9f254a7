"""Where services are reached from this machine."""

from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from localcluster.store.stores import HandClock
from stowplan.api.catalogue import ENDPOINT_SLICES, ENDPOINTS, NAMESPACES, SERVICES
from stowplan.cli.hosts.up import up
from stowplan.localcluster.remote.services import (
    Address,
    ServiceAddresses,
    ServiceKey,
    UnreachableServiceError,
    read_services,
)
from stowplan.localcluster.store import Store

PORTS = [{"name": "https", "port": 443, "targetPort": 9443}]


def cluster(**spec: Any) -> Store:
    store = Store(HandClock(), Random(1))
    store.create(NAMESPACES, {"metadata": {"name": "default"}})
    store.create(SERVICES, {"metadata": {"name": "hook"}, "spec": {"ports": PORTS, **spec}}, "default")
    return store


def found(store: Store, port: int = 443, **given: Address) -> Address | str:
    addresses = ServiceAddresses(store, {ServiceKey("default", name): one for name, one in given.items()})
    try:
        return addresses.find("default", "hook", port)
    except UnreachableServiceError as error:
        return str(error)


def endpoint_slice(manager: str = "", **endpoint: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": "hook"}
    if manager:
        labels["endpointslice.kubernetes.io/managed-by"] = manager
    return {
        "metadata": {"name": "hook-1", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.7"], **endpoint}],
        "ports": [{"name": "https", "port": 9443}],
    }


def test_what_the_user_says_counts_most_and_needs_no_service() -> None:
    here = Address("127.0.0.1", 9443)
    assert found(Store(HandClock(), Random(1)), hook=here) == here


def test_a_service_without_endpoints_has_nobody_behind_it() -> None:
    assert found(Store(HandClock(), Random(1))) == 'service "hook" not found'
    assert found(cluster()) == 'no endpoints available for service "hook"'
    assert found(cluster(), port=80) == 'no service port 80 found for service "hook"'


def test_endpoints_that_somebody_wrote_are_reached_by_the_name_of_the_port() -> None:
    store = cluster()
    store.create(ENDPOINT_SLICES, endpoint_slice(), "default")
    assert found(store) == Address("192.0.2.7", 9443)
    store = cluster()
    subset = {"addresses": [{"ip": "192.0.2.8"}], "ports": [{"name": "https", "port": 8443}]}
    store.create(ENDPOINTS, {"metadata": {"name": "hook"}, "subsets": [subset]}, "default")
    assert found(store) == Address("192.0.2.8", 8443)


@pytest.mark.parametrize(
    "made",
    [
        endpoint_slice("endpointslice-controller.k8s.io"),
        endpoint_slice(targetRef={"kind": "Pod", "name": "hook-1"}),
        endpoint_slice(conditions={"ready": False}),
    ],
    ids=["of a controller", "a pod", "not ready"],
)
def test_pods_and_endpoints_that_are_not_ready_are_never_called(made: dict[str, Any]) -> None:
    store = cluster()
    store.create(ENDPOINT_SLICES, made, "default")
    assert found(store) == 'no endpoints available for service "hook"'


def test_an_external_name_is_the_host() -> None:
    assert found(cluster(type="ExternalName", externalName="localhost"), port=9443) == Address(
        "localhost", 9443
    )


def test_options_name_service_port_and_address() -> None:
    assert read_services(["a.ns=127.0.0.1:1", "b.ns:8443=[::1]:2"]) == {
        ServiceKey("ns", "a"): Address("127.0.0.1", 1),
        ServiceKey("ns", "b", 8443): Address("::1", 2),
    }


@pytest.mark.parametrize(
    "text",
    ["", "hook", "hook.ns", "hook=1.2.3.4:1", "hook.ns=1.2.3.4", "hook.ns=:1", "h_k.ns=a:1", "a.b:0=c:1"],
)
def test_other_text_is_refused_in_one_line(text: str) -> None:
    result = CliRunner().invoke(up, ["--service", text])
    expected = f"Error: --service: expected NAME.NAMESPACE[:PORT]=HOST:PORT, got {text!r}\n"
    assert (result.exit_code, result.output) == (1, expected)
