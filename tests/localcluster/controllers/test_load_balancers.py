"""Addresses of Services of type LoadBalancer, of Ingresses and of Gateways."""

import ipaddress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from localcluster.controllers.small_clusters import NAMESPACE, Story, World, live
from localcluster.customresources.definitions import definition, version
from stowplan.api.catalogue import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    INGRESS_CLASSES,
    INGRESSES,
    SERVICES,
    Resource,
)
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.manager import balancer_controllers
from stowplan.localcluster.controllers.services.gateways import GATEWAY_CONTROLLER, INGRESS_CONTROLLER
from stowplan.localcluster.controllers.services.loadbalancers import (
    FINALIZER,
    OUR_CLASS,
    AddressPool,
    PoolError,
)

RANGE = ipaddress.ip_network("10.9.0.0/30")
"""Two addresses."""


def service(name: str, **spec: Any) -> Json:
    full = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "a"}, **spec}
    return {"metadata": {"name": name}, "spec": full}


def play(story: Story) -> World:
    def makes(context: ControllerContext) -> list[Controller]:
        return [*balancer_controllers(context, RANGE), GarbageCollector(context)]

    return live(story, makes)


def address(world: World, name: str, resource: Resource = SERVICES) -> str:
    shown = (world.get(resource, name).get("status") or {}).get("loadBalancer") or {}
    return "".join(one["ip"] for one in shown.get("ingress") or ())


def events(world: World, name: str) -> list[str]:
    found = [one for one in world.all(EVENTS) if one["regarding"]["name"] == name]
    assert {one["deprecatedSource"]["component"] for one in found} <= {"service-controller"}
    return [one["reason"] for one in sorted(found, key=lambda one: str(one["metadata"]["name"]))]


def test_a_load_balancer_gets_an_address_with_the_events_of_a_cloud() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.put(SERVICES, service("web"))
        await world.until(lambda: address(world, "web") == "10.9.0.1")
        found = world.get(SERVICES, "web")
        assert found["status"]["loadBalancer"]["ingress"] == [{"ip": "10.9.0.1", "ipMode": "VIP"}]
        assert found["metadata"]["finalizers"] == [FINALIZER]
        await world.settle(60)
        assert events(world, "web") == ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
        world.put(SERVICES, service("other"))
        await world.until(lambda: address(world, "other") == "10.9.0.2")

    play(story)


def test_without_nodes_that_take_traffic_there_is_a_warning() -> None:
    async def story(world: World) -> None:
        world.add_node("n", labels={"node.kubernetes.io/exclude-from-external-load-balancers": ""})
        world.put(SERVICES, service("web"))
        await world.until(lambda: address(world, "web"))
        assert "UnAvailableLoadBalancer" in events(world, "web")

    play(story)


def test_a_deleted_service_waits_for_its_finalizer_and_its_address_is_free_again() -> None:
    async def story(world: World) -> None:
        world.put(SERVICES, service("web"))
        await world.until(lambda: address(world, "web") == "10.9.0.1")
        world.delete(SERVICES, "web")
        await world.until(lambda: "web" not in world.names(SERVICES))
        assert events(world, "web")[-2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]
        world.put(SERVICES, service("next"))
        await world.until(lambda: address(world, "next") == "10.9.0.1")

    play(story)


def test_a_service_of_another_type_gives_its_address_back() -> None:
    async def story(world: World) -> None:
        world.put(SERVICES, service("web"))
        await world.until(lambda: address(world, "web"))
        world.patch(SERVICES, "web", {"spec": {"type": "ClusterIP"}})
        await world.until(lambda: not address(world, "web"))
        await world.until(lambda: not world.get(SERVICES, "web")["metadata"].get("finalizers"))
        world.patch(SERVICES, "web", {"spec": {"type": "LoadBalancer"}})
        await world.until(lambda: address(world, "web") == "10.9.0.1")

    play(story)


def test_services_with_a_class_of_others_are_left_alone() -> None:
    async def story(world: World) -> None:
        world.put(SERVICES, service("theirs", loadBalancerClass="example.com/other"))
        world.put(SERVICES, service("plain", type="ClusterIP"))
        world.put(SERVICES, service("ours", loadBalancerClass=OUR_CLASS))
        await world.until(lambda: address(world, "ours"))
        await world.settle(30)
        for name in ("theirs", "plain"):
            assert not address(world, name)
            assert events(world, name) == []

    play(story)


def test_a_requested_address_is_given_if_it_is_in_the_range_and_free() -> None:
    async def story(world: World) -> None:
        world.put(SERVICES, service("second", loadBalancerIP="10.9.0.2"))
        await world.until(lambda: address(world, "second") == "10.9.0.2")
        world.put(SERVICES, service("same", loadBalancerIP="10.9.0.2"))
        world.put(SERVICES, service("outside", loadBalancerIP="192.0.2.1"))
        failed = "SyncLoadBalancerFailed"
        await world.until(lambda: failed in events(world, "same") and failed in events(world, "outside"))
        said = {one["note"] for one in world.all(EVENTS) if one["type"] == "Warning"}
        failed = "Error syncing load balancer: failed to ensure load balancer: requested address"
        assert f"{failed} 192.0.2.1 is not in 10.9.0.0/30" in said
        assert f"{failed} 10.9.0.2 is already in use" in said
        world.patch(SERVICES, "outside", {"spec": {"loadBalancerIP": "10.9.0.1"}})
        await world.until(lambda: address(world, "outside") == "10.9.0.1")
        world.delete(SERVICES, "second")
        await world.until(lambda: address(world, "same") == "10.9.0.2", 600)

    play(story)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "10.9.0.1", "10.9.0.2", "x"]))))
def test_no_address_is_held_twice(steps: list[tuple[str, str]]) -> None:
    pool, held = AddressPool(RANGE), dict[str, str]()
    for holder, wanted in steps:
        if wanted == "x":
            pool.release(holder)
            held.pop(holder, None)
            continue
        try:
            held[holder] = pool.assign(holder, wanted)
        except PoolError:
            others = {one for name, one in held.items() if name != holder}
            assert wanted in others or (not wanted and len(others) == 2)
        assert len(set(held.values())) == len(held)


def ingress(name: str, **spec: Any) -> Json:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return {"metadata": {"name": name}, "spec": {"defaultBackend": backend, **spec}}


def test_ingresses_of_our_class_share_its_address() -> None:
    async def story(world: World) -> None:
        default = {"ingressclass.kubernetes.io/is-default-class": "true"}
        world.put(INGRESSES, ingress("early", ingressClassName="pretended"))
        world.put(
            INGRESS_CLASSES,
            {
                "metadata": {"name": "pretended", "annotations": default},
                "spec": {"controller": INGRESS_CONTROLLER},
            },
        )
        world.put(INGRESS_CLASSES, {"metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/nginx"}})
        world.put(INGRESSES, ingress("theirs", ingressClassName="nginx"))
        world.put(INGRESSES, ingress("default"))
        await world.until(lambda: address(world, "default", INGRESSES) == "10.9.0.1")
        await world.until(lambda: address(world, "early", INGRESSES) == "10.9.0.1")
        await world.settle(30)
        assert not address(world, "theirs", INGRESSES)

    play(story)


def test_gateways_of_our_class_are_programmed_once_their_definitions_are_there() -> None:
    group = "gateway.networking.k8s.io"
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def define(world: World, plural: str, kind: str, scope: str) -> None:
        served = version(subresources={"status": {}})
        served["schema"]["openAPIV3Schema"] = loose
        approved = {"api-approved.kubernetes.io": "https://example.com"}
        body = definition(plural, group, kind=kind, scope=scope, versions=[served])
        body["metadata"]["annotations"] = approved
        world.put(CUSTOM_RESOURCE_DEFINITIONS, body)

    async def story(world: World) -> None:
        await world.settle(1)
        define(world, "gatewayclasses", "GatewayClass", "Cluster")
        define(world, "gateways", "Gateway", "Namespaced")
        classes, gateways = (
            world.store.catalogue.named(f"{plural}.v1.{group}") for plural in ("gatewayclasses", "gateways")
        )
        assert classes is not None
        assert gateways is not None
        gateway = {"gatewayClassName": "pretended", "listeners": [{"name": "http", "port": 80}]}
        world.put(gateways, {"metadata": {"name": "edge"}, "spec": gateway})
        world.put(gateways, {"metadata": {"name": "theirs"}, "spec": {"gatewayClassName": "other"}})
        world.put(
            classes, {"metadata": {"name": "pretended"}, "spec": {"controllerName": GATEWAY_CONTROLLER}}
        )
        world.put(classes, {"metadata": {"name": "other"}, "spec": {"controllerName": "example.com/x"}})
        await world.until(lambda: world.get(gateways, "edge").get("status"))
        found = world.get(gateways, "edge")["status"]
        assert found["addresses"] == [{"type": "IPAddress", "value": "10.9.0.1"}]
        true = {one["type"]: one["status"] for one in found["conditions"]}
        assert true == {"Accepted": "True", "Programmed": "True"}
        assert [one["name"] for one in found["listeners"]] == ["http"]
        assert world.store.get(classes, "", "pretended")["status"]["conditions"][0]["reason"] == "Accepted"
        settled = world.store.version
        await world.settle(600)
        assert world.store.version == settled, "nothing is written again and again"
        assert "status" not in world.get(gateways, "theirs")
        elsewhere = {"spec": {"addresses": [{"value": "192.0.2.1"}]}}
        world.store.patch(gateways, NAMESPACE, "edge", elsewhere, PatchType.MERGE)
        await world.until(lambda: _programmed(world.get(gateways, "edge")) == "False")

    play(story)


def _programmed(gateway: Json) -> str:
    return "".join(one["status"] for one in gateway["status"]["conditions"] if one["type"] == "Programmed")


def test_a_written_address_gets_its_mode() -> None:
    async def story(world: World) -> None:
        made = world.put(SERVICES, service("theirs", loadBalancerClass="example.com/other"))
        status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"hostname": "a.example"}]}}
        shown = world.store.update(SERVICES, {**made, "status": status}, subresource="status")
        assert shown["status"]["loadBalancer"]["ingress"][0] == {"ip": "192.0.2.7", "ipMode": "VIP"}
        assert shown["status"]["loadBalancer"]["ingress"][1] == {"hostname": "a.example"}

    play(story)
