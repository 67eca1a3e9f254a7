"""Claims of pod groups: for whom they are reserved, who shares them, and what is freed for a group."""

from typing import Any

import pytest

from scheduler.live_scheduler import NAMESPACE, World, live
from scheduler.plugins.dynamicresources.racks import (
    add_class,
    add_devices,
    claim_of,
    is_quiet,
    one_gpu_each,
    reserved_for,
)
from scheduler.pod_groups.group_stories import add_group, put_members, told_of, with_gates
from stowplan.api import catalogue as c
from stowplan.api.decode import convert
from stowplan.api.devices import ResourceClaim
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.scheduler.plugins.dynamicresources.claims import ClaimError, claims_of, is_reserved_for
from stowplan.scheduler.table.devices import Claims

GATES = ("DRAWorkloadResourceClaims",)
COMPLETED = "deallocation and deletion of ResourceClaims completed"
FOR_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g"}
OTHER = {"resource": "pods", "name": "x", "uid": "x"}
SHARED = [{"name": "s", "resourceClaimName": "shared"}]


def put_claim(world: World, name: str = "shared", count: int = 1, **status: Any) -> Json:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
    metadata = {"name": name, "namespace": NAMESPACE}
    made = world.store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec})
    return world.store.update(c.RESOURCE_CLAIMS, {**made, "status": status}, subresource="status")


def on_node(name: str, device: str = "gpu-0") -> Json:
    """An allocation of a device of a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": name, "device": device}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


async def a_shared_device(world: World) -> None:
    """Two nodes, and a device that all of them reach."""
    add_class(world)
    for name in ("n1", "n2"):
        world.add_node(name)
    spec = {
        "driver": "gpu.example.com",
        "allNodes": True,
        "pool": {"name": "everywhere", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "net-0"}, {"name": "net-1"}],
    }
    world.store.create(c.RESOURCE_SLICES, {"metadata": {"name": "everywhere"}, "spec": spec})


@pytest.mark.parametrize(("gates", "listed", "users"), [(GATES, True, ["g"]), (GATES, False, ["g-0", "g-1"]),
                                                       ((), True, ["g-0", "g-1"])])  # fmt: skip
def test_a_claim_that_the_group_lists_is_reserved_for_the_group(
    gates: tuple[str, ...], listed: bool, users: list[str]
) -> None:
    async def story(world: World) -> None:
        put_claim(world)
        claims: dict[str, Any] = {"resourceClaims": SHARED} if listed else {}
        made = add_group(world, "g", 2, **claims)
        names = put_members(world, "g", 2, "1", resourceClaims=SHARED)
        await world.settle(60)
        assert all(world.node_of(name) for name in names)
        assert sorted(reserved_for(world, "shared")) == users
        if users == ["g"]:
            [user] = claim_of(world, "shared")["status"]["reservedFor"]
            assert user == {**FOR_GROUP, "uid": made["metadata"]["uid"]}
        assert is_quiet(world)

    live(story, before=a_shared_device, config=with_gates(*gates))


def test_members_that_share_a_claim_go_where_its_device_is() -> None:
    """The device is found for the first member, and nothing is written before all have a node."""

    async def story(world: World) -> None:
        put_claim(world)
        add_group(world, "g", 2, resourceClaims=SHARED)
        names = put_members(world, "g", 2, "1", resourceClaims=SHARED)
        await world.settle(60)
        [where] = {world.node_of(name) for name in names}
        assert where in ("n1", "n2")
        assert is_quiet(world)

    live(story, before=one_gpu_each, config=with_gates(*GATES))


def test_a_group_that_does_not_fit_where_its_device_is_leaves_nothing_behind() -> None:
    async def story(world: World) -> None:
        put_claim(world)
        add_group(world, "g", 3, resourceClaims=SHARED)
        put_members(world, "g", 3, "2", resourceClaims=SHARED)
        await world.settle(0.5)
        assert world.node_of("g-0") == ""
        assert claim_of(world, "shared").get("status", {}) in ({}, {"reservedFor": []})
        assert is_quiet(world)
        assert not [one for one in world.wire.shorts if "resourceclaims" in one]

    live(story, before=one_gpu_each, config=with_gates(*GATES))


async def _no_room_on_n1(world: World) -> None:
    add_class(world)
    world.add_node("n1", cpu="1")
    world.add_node("n2")
    for name in ("n1", "n2"):
        add_devices(world, name)


WHAT_IS_FREED = [
    pytest.param({}, {"resourceClaims": SHARED}, True, f"{COMPLETED}, pod group preemption: minCount",
                 id="a claim that nobody uses is deallocated for the pod"),
    pytest.param({"reservedFor": [{**FOR_GROUP, "uid": "GROUP"}]}, {"resourceClaims": SHARED}, True,
                 "deallocation of PodGroup ResourceClaim completed", id="one that only the group uses, too"),
    pytest.param({"reservedFor": [{**FOR_GROUP, "uid": "GROUP"}, OTHER]},
                 {"resourceClaims": SHARED}, False, "ResourceClaim unreserved for PodGroup",
                 id="the group is taken off one that others use"),
    pytest.param({"reservedFor": [OTHER]}, {}, False, COMPLETED,
                 id="what others use is left alone"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "spec", "freed", "text"), WHAT_IS_FREED)
def test_what_is_freed_for_a_group_that_finds_no_place(
    status: Json, spec: Json, freed: bool, text: str
) -> None:
    """The device of the claim is on a node that is too small for the members."""

    async def story(world: World) -> None:
        made = add_group(world, "g", 2, priority=5, **spec)
        users = [
            {**one, "uid": made["metadata"]["uid"]} if one["uid"] == "GROUP" else one
            for one in status.get("reservedFor", ())
        ]
        put_claim(world, allocation=on_node("n1"), reservedFor=users)
        await world.add_pod("low", cpu="1", priority=1)
        put_members(world, "g", 2, "2", priority=5, resourceClaims=SHARED)
        await world.settle(0.5)
        assert text in told_of(world, "g")
        assert ("allocation" in claim_of(world, "shared")["status"]) is not freed
        left = [one["name"] for one in claim_of(world, "shared")["status"].get("reservedFor", ())]
        assert "g" not in left

    live(story, before=_no_room_on_n1, config=with_gates(*GATES), wake_failed_groups=False)


def test_nothing_is_freed_while_members_run() -> None:
    async def story(world: World) -> None:
        made = add_group(world, "g", 1, resourceClaims=SHARED)
        user = {**FOR_GROUP, "uid": made["metadata"]["uid"]}
        put_claim(world, allocation=on_node("n1"), reservedFor=[user])
        world.put_pod("g-9", "1", nodeName="n1", schedulingGroup={"podGroupName": "g"}, resourceClaims=SHARED)
        put_members(world, "g", 1, "2", resourceClaims=SHARED)
        await world.settle(0.5)
        assert reserved_for(world, "shared") == ["g"]
        assert "allocation" in claim_of(world, "shared")["status"]

    live(story, before=_no_room_on_n1, config=with_gates(*GATES))


@pytest.mark.parametrize("gates", [(), ("TopologyAwareWorkloadScheduling",)])
def test_a_group_without_any_node_has_nothing_to_look_at(gates: tuple[str, ...]) -> None:
    """None of its members got as far as the plugin: an error, as in kube-scheduler."""

    async def story(world: World) -> None:
        add_group(world, "g", 1)
        put_members(world, "g", 1)
        await world.settle(0.5)
        assert told_of(world, "g") == 'error in "DynamicResources" PodGroupPostFilter plugins: not found'

    live(story, config=with_gates(*gates))


# The claims of a pod


def claim(**metadata: Any) -> ResourceClaim:
    made = convert({"metadata": {"name": "c", "namespace": "ns", "uid": "c", **metadata}}, ResourceClaim)
    assert isinstance(made, ResourceClaim)
    return made


def member(group: str = "g") -> Pod:
    spec = {
        "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}],
        "schedulingGroup": {"podGroupName": group},
    }
    status = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "c"}]}
    metadata = {"name": "p", "namespace": "ns", "uid": "p"}
    made = convert({"metadata": metadata, "spec": spec, "status": status}, Pod)
    assert isinstance(made, Pod)
    return made


NOT_OWNER = "ResourceClaim ns/c was not created for Pod ns/p"


@pytest.mark.parametrize(
    ("owner", "groups", "problem"),
    [
        ({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "p"}, False, ""),
        ({"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v1beta1", "name": "g", "uid": "x"}, True, ""),
        ({"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v9", "name": "g", "uid": "x"}, True, ""),
        (
            {"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v1beta1", "name": "g", "uid": "x"},
            False,
            f"{NOT_OWNER} (Pod is not owner)",
        ),
        (
            {"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v1beta1", "name": "h", "uid": "x"},
            True,
            f"{NOT_OWNER} (neither Pod nor PodGroup g is the owner)",
        ),
        (
            {"kind": "PodGroup", "apiVersion": "other.io/v1", "name": "g", "uid": "x"},
            True,
            f"{NOT_OWNER} (neither Pod nor PodGroup g is the owner)",
        ),
    ],
)
def test_who_may_own_a_claim_from_a_template(owner: Json, groups: bool, problem: str) -> None:
    claims = Claims()
    claims.put(claim(ownerReferences=[{**owner, "controller": True}]))
    if not problem:
        assert [one.name for one in claims_of(member(), claims, groups=groups)] == ["c"]
        return
    with pytest.raises(ClaimError) as found:
        claims_of(member(), claims, groups=groups)
    assert str(found.value) == problem


@pytest.mark.parametrize(
    ("user", "groups", "reserved"),
    [
        ({"resource": "pods", "name": "p", "uid": "p"}, False, True),
        ({**FOR_GROUP, "uid": "any"}, True, True),
        ({**FOR_GROUP, "uid": "any"}, False, False),
        ({**FOR_GROUP, "name": "h", "uid": "any"}, True, False),
        ({**FOR_GROUP, "apiGroup": "", "uid": "any"}, True, False),
    ],
)
def test_for_whom_a_claim_is_reserved(user: Json, groups: bool, reserved: bool) -> None:
    made = convert(
        {"metadata": {"name": "c", "namespace": "ns"}, "status": {"reservedFor": [user]}}, ResourceClaim
    )
    assert isinstance(made, ResourceClaim)
    assert is_reserved_for(made, member(), groups=groups) is reserved
