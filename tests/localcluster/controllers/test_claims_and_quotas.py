"""Volumes that are never deleted, missing provisioners, resource claims, quotas, namespaces."""

from collections.abc import Sequence
from typing import Any

import pytest

from localcluster.controllers.small_clusters import NAMESPACE, World, live, template
from stowplan.api.catalogue import (
    CONFIG_MAPS,
    CSI_DRIVERS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import unreachable
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController, claim_from
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.manager import volume_controllers
from stowplan.localcluster.controllers.namespace import NamespaceController, Remaining, deletion_conditions
from stowplan.localcluster.controllers.nodes.nodelifecycle import LifecycleSettings, NodeLifecycleController
from stowplan.localcluster.controllers.nodes.tainteviction import TaintEvictionController
from stowplan.localcluster.controllers.resourcequota import ResourceQuotaController
from stowplan.localcluster.controllers.storage.persistentvolume import claim_step, deletion_problem
from stowplan.localcluster.controllers.storage.provisioner import ProvisionerSettings, default_storage_class


def told(world: World, reason: str) -> list[str]:
    """Messages of events with a reason."""
    return [
        str(event.get("message") or event.get("note"))
        for event in world.all(EVENTS)
        if event["reason"] == reason
    ]


# Volumes

HOST = "host_path deleter only supports /tmp/.+ but received provided /data"
NO_PLUGIN = 'error getting deleter volume plugin for volume "v": no volume plugin matched'


@pytest.mark.parametrize(
    ("annotations", "source", "problem"),
    [
        ({}, {"hostPath": {"path": "/data"}}, HOST),
        ({}, {"hostPath": {"path": "/tmp/x"}}, ""),
        ({}, {"csi": {"driver": "x"}}, None),
        ({"pv.kubernetes.io/provisioned-by": "example.com/p"}, {"hostPath": {"path": "/data"}}, None),
        ({}, {"iscsi": {}}, NO_PLUGIN),
        ({}, {"nfs": {}}, NO_PLUGIN.replace("no volume", "no deletable volume")),
    ],
)
def test_who_can_delete_a_released_volume(
    annotations: dict[str, str], source: Json, problem: str | None
) -> None:
    volume = {"metadata": {"name": "v", "annotations": annotations}, "spec": source}
    assert deletion_problem(volume) == problem


@pytest.mark.parametrize(
    ("provisioner", "asked", "reason"),
    [
        ("csi.example", "csi.example", "ExternalProvisioning"),
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "ExternalProvisioning"),
        ("kubernetes.io/no-provisioner", "", "ProvisioningFailed"),
    ],
)
def test_whom_a_claim_asks_for_its_volume(provisioner: str, asked: str, reason: str) -> None:
    claim = {"metadata": {"name": "c", "namespace": "d"}, "spec": {"storageClassName": "s"}}
    step = claim_step(claim, {"metadata": {"name": "s"}, "provisioner": provisioner}, None, [])
    assert (step.provisioner, step.event and step.event[1]) == (asked, reason)


def volumes(context: ControllerContext) -> Sequence[Controller]:
    return volume_controllers(context, ProvisionerSettings(installed_only=True))


def ask_for_volume(world: World, class_name: str, size: str = "1Gi") -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    body = {"metadata": {"name": "c"}, "spec": {**spec, "storageClassName": class_name}}
    world.put(PERSISTENT_VOLUME_CLAIMS, body)


def claim_status(world: World) -> Json:
    status: Json = world.get(PERSISTENT_VOLUME_CLAIMS, "c")["status"]
    return status


def test_claims_of_others_wait_until_their_driver_is_installed() -> None:
    async def story(world: World) -> None:
        world.put(STORAGE_CLASSES, {"metadata": {"name": "s"}, "provisioner": "csi.example.com"})
        ask_for_volume(world, "s")
        await world.settle(10)
        assert claim_status(world)["phase"] == "Pending"
        annotations = world.get(PERSISTENT_VOLUME_CLAIMS, "c")["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/storage-provisioner"] == "csi.example.com"
        assert len(told(world, "ExternalProvisioning")) == 1
        world.put(CSI_DRIVERS, {"metadata": {"name": "csi.example.com"}, "spec": {}})
        await world.until(lambda: claim_status(world)["phase"] == "Bound")

    live(story, volumes)


def test_the_default_class_is_served_and_its_volumes_grow() -> None:
    async def story(world: World) -> None:
        standard = default_storage_class()
        world.put(STORAGE_CLASSES, {**standard, "volumeBindingMode": "Immediate"})
        ask_for_volume(world, "standard")
        await world.until(lambda: claim_status(world)["phase"] == "Bound")
        larger = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
        world.patch(PERSISTENT_VOLUME_CLAIMS, "c", larger)
        await world.until(lambda: claim_status(world)["capacity"] == {"storage": "5Gi"})
        assert world.all(PERSISTENT_VOLUMES)[0]["spec"]["capacity"] == {"storage": "5Gi"}

    live(story, volumes)


def test_a_released_volume_that_nobody_can_delete_fails_with_an_event() -> None:
    async def story(world: World) -> None:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "none",
            "hostPath": {"path": "/data"},
        }
        world.put(PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
        ask_for_volume(world, "none")
        await world.until(lambda: claim_status(world)["phase"] == "Bound")
        world.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        await world.settle(2)
        status = world.get(PERSISTENT_VOLUMES, "v")["status"]
        assert (status["phase"], status["message"]) == ("Failed", HOST)
        assert told(world, "VolumeFailedDelete") == [HOST]

    live(story, volumes)


# Resource claims


def claiming_pod() -> Json:
    made = template(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    return {**made, "metadata": {"name": "p", "uid": "1", "namespace": "d"}}


CLAIM_TEMPLATE: Json = {
    "metadata": {"name": "t"},
    "spec": {
        "metadata": {"labels": {"of": "t"}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    },
}


def test_a_claim_of_a_template_is_the_pods_and_has_a_name_that_fits() -> None:
    made = claim_from(CLAIM_TEMPLATE, claiming_pod(), "g")
    assert made["metadata"]["generateName"] == "p-g-"
    assert made["metadata"]["labels"] == {"of": "t"}
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "g"}
    assert "blockOwnerDeletion" not in made["metadata"]["ownerReferences"][0]
    long = claiming_pod()
    long["metadata"]["name"] = "p" * 60
    assert len(claim_from(CLAIM_TEMPLATE, long, "c" * 60)["metadata"]["generateName"]) <= 57


def test_a_pod_gets_its_claim_once_the_template_is_there_and_the_claim_goes_with_it() -> None:
    async def story(world: World) -> None:
        pod = claiming_pod()
        world.put(PODS, {"metadata": {"name": "p"}, "spec": pod["spec"]})
        await world.settle(1)
        missing = 'resourceclaimtemplate.resource.k8s.io "t" not found'
        expected = f'PodResourceClaim g: resource claim template "t": {missing}'
        assert set(told(world, "FailedResourceClaimCreation")) == {expected}
        world.put(RESOURCE_CLAIM_TEMPLATES, CLAIM_TEMPLATE)
        await world.until(lambda: world.names(RESOURCE_CLAIMS), 10)
        [name] = world.names(RESOURCE_CLAIMS)
        await world.settle()
        statuses = world.get(PODS, "p")["status"]["resourceClaimStatuses"]
        assert statuses == [{"name": "g", "resourceClaimName": name}]
        world.delete(PODS, "p")
        await world.until(lambda: not world.names(RESOURCE_CLAIMS), 10)

    live(story, lambda context: [ResourceClaimController(context), GarbageCollector(context)])


def test_a_claim_is_freed_when_its_pod_is_done() -> None:
    async def story(world: World) -> None:
        pod = world.put(PODS, {**template(nodeName="n"), "metadata": {"name": "p"}})
        spec = CLAIM_TEMPLATE["spec"]["spec"]
        finalizer = "resource.kubernetes.io/delete-protection"
        body = {"metadata": {"name": "c", "finalizers": [finalizer]}, "spec": spec}
        made = world.put(RESOURCE_CLAIMS, body)
        reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        world.store.update(RESOURCE_CLAIMS, {**made, "status": status}, subresource="status")
        await world.settle()
        assert world.get(RESOURCE_CLAIMS, "c")["status"]["reservedFor"] == reserved
        world.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
        world.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"looked": "at"}}})
        await world.settle(1)
        freed = world.get(RESOURCE_CLAIMS, "c")
        assert "reservedFor" not in freed.get("status", {})
        assert "allocation" not in freed.get("status", {})
        assert not freed["metadata"].get("finalizers")

    live(story, lambda context: [ResourceClaimController(context)])


@pytest.mark.parametrize("answered", [False, True])
def test_a_pod_gets_one_claim_of_a_template_though_the_informer_is_late(answered: bool) -> None:
    """The answer to the first request may be lost besides."""
    sent = 0

    async def story(world: World) -> None:
        create = world.client.create

        async def first_lost(resource: Resource, *args: Any, **options: Any) -> Json:
            nonlocal sent
            made = await create(resource, *args, **options)
            sent += resource == RESOURCE_CLAIMS
            if resource == RESOURCE_CLAIMS and sent == 1 and not answered:
                raise unreachable("the connection broke")
            return made

        world.client.create = first_lost  # type: ignore[method-assign]
        claims = world.context.informers.known(RESOURCE_CLAIMS)
        assert claims is not None
        claims.added = lambda new: None  # type: ignore[method-assign]
        world.put(RESOURCE_CLAIM_TEMPLATES, CLAIM_TEMPLATE)
        asked = [{"name": "gpu", "resourceClaimTemplateName": CLAIM_TEMPLATE["metadata"]["name"]}]
        world.put(PODS, {**template(resourceClaims=asked), "metadata": {"name": "p"}})
        await world.until(lambda: world.get(PODS, "p").get("status", {}).get("resourceClaimStatuses"))
        world.store.bind(NAMESPACE, "p", {"metadata": {"name": "p"}, "target": {"name": "n"}})
        await world.settle(30)
        [claim] = world.all(RESOURCE_CLAIMS)
        [named] = world.get(PODS, "p")["status"]["resourceClaimStatuses"]
        assert named == {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}

    live(story, lambda context: [ResourceClaimController(context)])
    assert sent == 1


def allocate(world: World, claim: Json, *pods: Json) -> None:
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
    reserved = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods
    ]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    world.store.update(RESOURCE_CLAIMS, {**claim, "status": status}, subresource="status")


def test_a_claim_is_reserved_for_a_pod_that_was_bound_past_the_scheduler() -> None:
    async def story(world: World) -> None:
        claims = [{"name": "g", "resourceClaimName": "c"}]
        pod = world.put(PODS, {**template(nodeName="n", resourceClaims=claims), "metadata": {"name": "p"}})
        other = world.put(PODS, {**template(nodeName="n"), "metadata": {"name": "q"}})
        claim = world.put(
            RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": CLAIM_TEMPLATE["spec"]["spec"]}
        )
        await world.settle()
        allocate(world, claim, other)
        await world.settle(1)
        reserved = world.get(RESOURCE_CLAIMS, "c")["status"]["reservedFor"]
        assert [one["uid"] for one in reserved] == [other["metadata"]["uid"], pod["metadata"]["uid"]]

    live(story, lambda context: [ResourceClaimController(context)])


@pytest.mark.parametrize("is_named", [True, False])
def test_the_claim_of_an_extended_resource_goes_when_its_pod_is_done(is_named: bool) -> None:
    """Also if the scheduler that made it did not get to write its name into the pod's status."""

    async def story(world: World) -> None:
        pod = world.put(PODS, {**template(nodeName="n"), "metadata": {"name": "p"}})
        uid = pod["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        finalizer = "resource.kubernetes.io/delete-protection"
        metadata = {"name": "p-extended-resources-x", "ownerReferences": [owner], "finalizers": [finalizer]}
        claim = world.put(RESOURCE_CLAIMS, {"metadata": metadata, "spec": CLAIM_TEMPLATE["spec"]["spec"]})
        allocate(world, claim, pod)
        mapping = {"containerName": "c", "requestName": "r", "resourceName": "example.com/gpu"}
        made = {"resourceClaimName": metadata["name"], "requestMappings": [mapping]}
        if is_named:
            world.patch(PODS, "p", {"status": {"extendedResourceClaimStatus": made}}, "status")
        await world.settle(1)
        assert world.names(RESOURCE_CLAIMS) == [metadata["name"]]
        world.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
        await world.until(lambda: world.names(RESOURCE_CLAIMS) == [], 10)

    live(story, lambda context: [ResourceClaimController(context)])


# Quotas


def test_a_quota_counts_what_is_there_and_what_has_gone() -> None:
    def used(world: World) -> Json:
        found: Json = world.get(RESOURCE_QUOTAS, "q").get("status", {}).get("used", {})
        return found

    async def story(world: World) -> None:
        world.put(CONFIG_MAPS, {"metadata": {"name": "old"}})
        hard = {"count/configmaps": "3", "requests.cpu": "1", "pods": "3"}
        world.put(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await world.settle()
        assert used(world) == {"count/configmaps": "1", "requests.cpu": "0", "pods": "0"}
        for name in ("a", "b"):
            world.put(PODS, {**template(cpu="400m"), "metadata": {"name": name}})
        world.put(CONFIG_MAPS, {"metadata": {"name": "new"}})
        await world.settle()
        assert used(world) == {"count/configmaps": "2", "requests.cpu": "800m", "pods": "2"}
        world.delete(CONFIG_MAPS, "old")
        await world.settle()
        assert used(world) == {"count/configmaps": "1", "requests.cpu": "800m", "pods": "2"}
        world.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, "status")
        await world.settle()
        assert used(world) == {"count/configmaps": "1", "requests.cpu": "400m", "pods": "1"}
        world.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"secrets": "9"}}})
        await world.settle()
        assert used(world)["secrets"] == "0"

    live(story, lambda context: [ResourceQuotaController(context)])


# Namespaces


def test_a_namespace_tells_what_keeps_it() -> None:
    left = Remaining()
    left.kinds.update({"configmaps.": 1, "widgets.example.com": 2})
    left.finalizers.update({"example.com/hold": 3})
    conditions = {one["type"]: one for one in deletion_conditions({}, left, "now")}
    assert len(conditions) == 5
    assert conditions["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances, "
        "widgets.example.com has 2 resource instances"
    )
    assert conditions["NamespaceFinalizersRemaining"]["message"].endswith(
        "example.com/hold in 3 resource instances"
    )
    assert {one["status"] for one in conditions.values()} == {"True", "False"}


def test_pods_go_before_the_rest_of_a_namespace() -> None:
    async def story(world: World) -> None:
        world.put(CONFIG_MAPS, {"metadata": {"name": "c"}})
        held = {"name": "p", "finalizers": ["example.com/hold"]}
        world.put(PODS, {**template(), "metadata": held})
        world.delete(NAMESPACES, NAMESPACE)
        await world.settle(3)
        assert "c" in world.names(CONFIG_MAPS)
        assert len(world.get(NAMESPACES, NAMESPACE)["status"]["conditions"]) == 5
        world.patch(PODS, "p", {"metadata": {"finalizers": None}})
        await world.until(lambda: NAMESPACE not in world.names(NAMESPACES), 10)

    live(story, lambda context: [NamespaceController(context)])


def test_an_owner_in_another_namespace_is_told_and_does_not_keep_what_it_owns() -> None:
    async def story(world: World) -> None:
        far = world.store.create(CONFIG_MAPS, {"metadata": {"name": "far", "namespace": "default"}})
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "far", "uid": far["metadata"]["uid"]}
        world.put(CONFIG_MAPS, {"metadata": {"name": "child", "ownerReferences": [owner]}})
        await world.until(lambda: "child" not in world.names(CONFIG_MAPS), 10)
        [note] = told(world, "OwnerRefInvalidNamespace")
        assert note.startswith(f"ownerRef [v1/ConfigMap, namespace: {NAMESPACE}, name: far, uid: ")

    live(story, lambda context: [GarbageCollector(context)])


# Nodes


def nodes(context: ControllerContext) -> Sequence[Controller]:
    return [NodeLifecycleController(context, LifecycleSettings(2, 8)), TaintEvictionController(context)]


def running_pod(world: World, name: str, **spec: Any) -> None:
    made = world.put(PODS, {**template(nodeName="n", **spec), "metadata": {"name": name}})
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2000-01-01T00:00:00Z"}]
    status = {"phase": "Running", "conditions": ready}
    world.store.update(PODS, {**made, "status": status}, subresource="status")


def is_marked(world: World, name: str) -> bool:
    [ready] = [one for one in world.get(PODS, name)["status"]["conditions"] if one["type"] == "Ready"]
    return bool(ready["status"] == "False")


def test_only_the_pods_of_a_silent_node_are_marked_and_a_node_is_told_of() -> None:
    async def story(world: World) -> None:
        for name in ("n", "other"):
            world.add_node(name)
        running_pod(world, "p", tolerations=[{"operator": "Exists"}])
        since = "2001-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "False", "reason": "x", "lastTransitionTime": since}
        world.patch(NODES, "n", {"status": {"conditions": [ready]}}, "status")
        await world.settle(4)
        assert not is_marked(world, "p"), "the node says itself that it is not ready"
        world.patch(NODES, "n", {"status": {"conditions": [{**ready, "status": "True"}]}}, "status")
        await world.settle(12)
        assert is_marked(world, "p"), "the node says nothing any more"
        assert told(world, "NodeNotReady")
        assert "Node n event: Registered Node n in Controller" in told(world, "RegisteredNode")
        world.delete(NODES, "n")
        await world.settle(4)
        assert told(world, "RemovingNode") == ["Node n event: Removing Node n from Controller"]

    live(story, nodes)


def test_an_eviction_is_cancelled_when_its_taint_goes() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        toleration = {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        running_pod(world, "p", tolerations=[toleration])
        world.patch(NODES, "n", {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
        await world.settle(2)
        world.patch(NODES, "n", {"spec": {"taints": []}})
        await world.settle(10)
        assert "deletionTimestamp" not in world.get(PODS, "p")["metadata"]
        assert told(world, "TaintManagerEviction") == [f"Cancelling deletion of Pod {NAMESPACE}/p"]

    live(story, lambda context: [TaintEvictionController(context)])


def test_what_belongs_to_a_pod_goes_with_it_though_no_informer_ever_told_of_the_pod() -> None:
    async def story(world: World) -> None:
        pods = world.context.informers.known(PODS)
        assert pods is not None
        pods.added = lambda new: None  # type: ignore[method-assign]
        pod = world.put(PODS, {**template(), "metadata": {"name": "p"}})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
        world.put(CONFIG_MAPS, {"metadata": {"name": "c", "ownerReferences": [owner]}})
        await world.settle(5)
        assert world.names(CONFIG_MAPS) == ["c"]
        world.store.delete(PODS, NAMESPACE, "p", DeleteOptions(grace_period_seconds=0))
        await world.until(lambda: world.names(CONFIG_MAPS) == [], 60)

    live(story, lambda context: [GarbageCollector(context, (PODS, CONFIG_MAPS))])
