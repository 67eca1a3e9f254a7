"""Objects for services: EndpointSlices, Endpoints, and the mirror of one in the other."""

from collections.abc import Sequence
from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live
from stowplan.api.catalogue import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.manager import service_controllers
from stowplan.localcluster.controllers.services.endpoints import addressed_pod, subsets_of
from stowplan.localcluster.controllers.services.endpointslice import endpoint_of, plan_for_ports, ports_of

TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
HTTP = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}


def service(name: str = "back", **spec: Any) -> Json:
    full = {
        "selector": {"app": "a"},
        "ports": [HTTP],
        "clusterIP": "10.96.0.9",
        "ipFamilies": ["IPv4"],
        **spec,
    }
    return {"metadata": {"name": name, "namespace": "d", "labels": {"of": name}}, "spec": full}


def pod(name: str, ip: str = "10.0.0.1", ready: str = "True", **rest: Any) -> Json:
    metadata = {
        "name": name,
        "namespace": "d",
        "uid": name,
        "labels": {"app": "a"},
        **rest.pop("metadata", {}),
    }
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i", **rest.pop("container", {})}]}
    ready_ = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "phase": rest.pop("phase", "Running"),
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [ready_],
    }
    return {"metadata": metadata, "spec": {**spec, **rest}, "status": status}


# The decisions

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("made", "spec", "conditions"),
    [
        (pod("p"), {}, (True, True, False)),
        (pod("p", ready="False"), {}, (False, False, False)),
        (pod("p", metadata=DELETED), {}, (False, True, True)),
        (pod("p", ready="False", metadata=DELETED), {}, (False, False, True)),
        (pod("p", ready="False"), {"publishNotReadyAddresses": True}, (True, False, False)),
        (pod("p", metadata=DELETED), {"publishNotReadyAddresses": True}, (True, True, True)),
    ],
)
def test_an_endpoint_says_whether_it_is_ready_serving_and_terminating(
    made: Json, spec: Json, conditions: tuple[bool, ...]
) -> None:
    endpoint = endpoint_of(made, service(**spec), "IPv4", "")
    assert tuple(endpoint["conditions"].values()) == conditions


@pytest.mark.parametrize(
    ("distribution", "zone", "hints"),
    [
        (None, "a", None),
        ("PreferClose", "a", {"forZones": [{"name": "a"}]}),
        ("PreferSameZone", "", None),
        ("PreferSameNode", "a", {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}),
    ],
)
def test_hints_follow_the_traffic_distribution(distribution: str, zone: str, hints: Json | None) -> None:
    assert (
        endpoint_of(pod("p"), service(trafficDistribution=distribution), "IPv4", zone).get("hints") == hints
    )


def test_a_hostname_counts_only_in_the_service_that_is_its_subdomain() -> None:
    made = pod("p", hostname="one", subdomain="back")
    assert endpoint_of(made, service(), "IPv4", "")["hostname"] == "one"
    assert "hostname" not in endpoint_of(made, service("other"), "IPv4", "")


def test_named_ports_are_looked_up_by_name_and_protocol_also_in_sidecars() -> None:
    web = {"name": "web", "containerPort": 9090, "protocol": "TCP"}
    ports = [
        {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP", "appProtocol": "h2"},
        {"name": "udp", "port": 80, "targetPort": "web", "protocol": "UDP"},
        {"name": "plain", "port": 81, "targetPort": 81, "protocol": "TCP"},
    ]
    found = [
        {"name": "http", "protocol": "TCP", "port": 9090, "appProtocol": "h2"},
        {"name": "plain", "protocol": "TCP", "port": 81},
    ]
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "ports": [web]}
    assert ports_of(pod("p", container={"ports": [web]}), service(ports=ports)) == found
    assert ports_of(pod("p", initContainers=[sidecar]), service(ports=ports)) == found


def _endpoints(first: int, count: int) -> list[Json]:
    return [{"addresses": [f"10.0.0.{n}"], "targetRef": {"uid": str(n)}} for n in range(first, first + count)]


def _by_uid(endpoints: Sequence[Json]) -> dict[str, Json]:
    return {one["targetRef"]["uid"]: one for one in endpoints}


@pytest.mark.parametrize(
    ("existing", "desired", "sizes"),
    [
        ([], 0, ([], [], 0)),
        ([], 250, ([100, 100, 50], [], 0)),
        ([(0, 100)], 100, ([], [], 0)),
        ([(0, 100)], 101, ([1], [], 0)),
        ([(0, 60), (100, 40)], 60, ([], [], 1)),
        ([(0, 60), (60, 40)], 103, ([], [63], 0)),
        ([(0, 50)], 20, ([], [20], 0)),
    ],
)
def test_endpoints_stay_in_their_slices_and_few_slices_are_written(
    existing: list[tuple[int, int]], desired: int, sizes: tuple[list[int], list[int], int]
) -> None:
    slices = [{"metadata": {"name": str(n)}, "endpoints": _endpoints(*one)} for n, one in enumerate(existing)]
    plan = plan_for_ports(slices, _by_uid(_endpoints(0, desired)), [], "IPv4")
    written = [len(contents["endpoints"]) for _, contents in plan.update]
    assert ([len(one["endpoints"]) for one in plan.create], written, len(plan.delete)) == sizes


def test_endpoints_hold_a_thousand_addresses_and_the_ready_ones_first() -> None:
    pods = [pod(f"p{n}", f"10.1.{n // 250}.{n % 250}", ready=str(n >= 20)) for n in range(1010)]
    subsets, truncated = subsets_of(addressed_pod(one, service()) for one in pods)
    assert truncated
    assert [(len(one["addresses"]), len(one["notReadyAddresses"])) for one in subsets] == [(990, 10)]


# Over a store


def controllers(context: ControllerContext) -> Sequence[Controller]:
    return service_controllers(context)


def _make_pods(world: World, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        made = pod(name, f"10.0.{number // 250}.{number % 250 + 1}")
        created = world.put(PODS, {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": made["spec"]})
        world.store.update(PODS, {**created, "status": made["status"]}, subresource="status")


def test_slices_and_endpoints_follow_the_pods_of_a_service() -> None:
    async def story(world: World) -> None:
        world.add_node("n1", labels={"topology.kubernetes.io/zone": "z1"})
        world.put(SERVICES, service())
        await world.settle()
        [empty] = world.all(ENDPOINT_SLICES)
        assert not empty.get("endpoints")
        assert TRIGGER in empty["metadata"]["annotations"]
        _make_pods(world, ["p1", "p2"])
        await world.settle()
        [one] = world.all(ENDPOINT_SLICES)
        assert one["metadata"]["name"] == empty["metadata"]["name"], "a slice is reused"
        assert {endpoint["zone"] for endpoint in one["endpoints"]} == {"z1"}
        assert one["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
        [subset] = world.get(ENDPOINTS, "back")["subsets"]
        assert [address["targetRef"]["name"] for address in subset["addresses"]] == ["p1", "p2"]
        world.patch(PODS, "p1", {"metadata": {"labels": {"app": "x"}}})
        world.patch(PODS, "p2", {"status": {"phase": "Succeeded"}}, "status")
        await world.settle()
        [last] = world.all(ENDPOINT_SLICES)
        assert not last.get("endpoints")
        assert TRIGGER not in last["metadata"].get("annotations", {}), "nothing became ready or not ready"
        world.delete(SERVICES, "back")
        await world.settle()
        assert world.all(ENDPOINT_SLICES) == world.all(ENDPOINTS) == []

    live(story, controllers)


def test_a_pod_on_an_unknown_node_is_an_endpoint_once_the_node_is_there() -> None:
    async def story(world: World) -> None:
        world.put(SERVICES, service())
        _make_pods(world, ["p1"])
        await world.settle()
        assert not world.all(ENDPOINT_SLICES)[0].get("endpoints")
        world.add_node("n1")
        await world.settle(2)
        assert len(world.all(ENDPOINT_SLICES)[0]["endpoints"]) == 1
        world.delete(NODES, "n1")

    live(story, controllers)


def test_a_change_of_one_pod_of_many_writes_one_slice() -> None:
    async def story(world: World) -> None:
        world.add_node("n1")
        world.put(SERVICES, service())
        _make_pods(world, [f"p{n}" for n in range(450)])
        await world.settle(2)
        before = {one["metadata"]["name"]: one for one in world.all(ENDPOINT_SLICES)}
        assert sum(len(one["endpoints"]) for one in before.values()) == 450
        assert max(len(one["endpoints"]) for one in before.values()) == 100
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:09Z"}
        world.patch(PODS, "p7", {"status": {"conditions": [condition]}}, "status")
        await world.settle(2)
        changed = [one for one in world.all(ENDPOINT_SLICES) if before[one["metadata"]["name"]] != one]
        assert len(changed) == 1
        assert changed[0]["metadata"]["annotations"][TRIGGER] == "2026-01-01T00:00:09Z"

    live(story, controllers)


def test_endpoints_of_a_service_without_a_selector_are_mirrored() -> None:
    async def story(world: World) -> None:
        world.put(SERVICES, service(selector=None))
        subset = {"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "ports": [{"port": 80}]}
        world.put(ENDPOINTS, {"metadata": {"name": "back", "labels": {"my": "label"}}, "subsets": [subset]})
        await world.settle()
        made = {one["addressType"]: one for one in world.all(ENDPOINT_SLICES)}
        assert set(made) == {"IPv4", "IPv6"}
        assert made["IPv4"]["endpoints"] == [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]
        assert made["IPv4"]["metadata"]["labels"]["my"] == "label"
        world.patch(
            ENDPOINTS, "back", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
        )
        await world.settle()
        assert world.all(ENDPOINT_SLICES) == []

    live(story, controllers)
