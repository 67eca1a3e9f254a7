"""The rows of docs/parity.md about what a pod takes of a node: filters, accounting, in-place resize."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.plugins.answers import PASSES, profile_with, verdicts
from stowplan.api.decode import convert
from stowplan.api.pod import Pod, ResourceList, ResourceRequirements
from stowplan.scheduler.framework.status import Status, unresolvable, unschedulable
from stowplan.testing import PodBuilder, cluster, node, pod

GPU = "example.com/gpu"


def full(resource: str) -> Status:
    return unschedulable(f"Insufficient {resource}").by("NodeResourcesFit")


def too_small(*resources: str) -> Status:
    return unresolvable(*(f"Insufficient {name}" for name in resources)).by("NodeResourcesFit")


ROOM: ResourceList = {
    "cpu": "4",
    "memory": "8Gi",
    "ephemeral-storage": "10Gi",
    GPU: 2,
    "hugepages-2Mi": "64Mi",
}
"""Resources of a node in these tests, twice those of `HALF`."""
HALF: ResourceList = {
    "cpu": "2",
    "memory": "4Gi",
    "ephemeral-storage": "5Gi",
    GPU: 1,
    "hugepages-2Mi": "32Mi",
}


@pytest.mark.parametrize("resource", ROOM)
def test_what_is_free_of_a_resource_has_to_suffice(resource: str) -> None:
    holders = [pod("old").requests({resource: HALF[resource]}).on("a")]
    world = cluster(nodes=[node("a").capacity(ROOM)], pods=holders)
    assert verdicts(world, pod("p").requests({resource: HALF[resource]})) == {"a": PASSES}
    assert verdicts(world, pod("p").requests({resource: ROOM[resource]})) == {"a": full(resource)}


def test_all_resources_that_do_not_suffice_are_named() -> None:
    world = cluster(nodes=[node("a").capacity(ROOM)], pods=[pod("old").requests(HALF).on("a")])
    names = ("cpu", "memory", "ephemeral-storage", GPU, "hugepages-2Mi")
    reasons = tuple(f"Insufficient {name}" for name in names)
    assert verdicts(world, pod("p").requests(ROOM)) == {"a": unschedulable(*reasons).by("NodeResourcesFit")}


def test_a_node_takes_so_many_pods_and_no_more() -> None:
    world = cluster(nodes=[node("a").capacity(pods=2)], pods=[pod("one").on("a")])
    assert verdicts(world, pod("p")) == {"a": PASSES}
    world.add(pod("two").on("a"))
    assert verdicts(world, pod("p")) == {"a": unschedulable("Too many pods").by("NodeResourcesFit")}


def test_a_node_that_would_be_too_small_if_it_were_empty_is_a_hopeless_case() -> None:
    world = cluster(nodes=[node("full"), node("small").capacity(cpu="1")])
    world.add(pod("old").requests(cpu="3").on("full"))
    expected = {"full": full("cpu"), "small": too_small("cpu")}
    assert verdicts(world, pod("p").requests(cpu="2")) == expected
    assert verdicts(world, pod("p").requests({GPU: 1})) == {"full": too_small(GPU), "small": too_small(GPU)}


def free_cpu(*running: PodBuilder | Pod) -> int:
    """Remaining CPU, in thousandths, of a node with 4 CPU."""
    world = cluster(nodes=[node("a").capacity(cpu="4")], pods=running)
    row = world.table.node("a")
    assert row is not None
    left = row.free("cpu")
    assert verdicts(world, pod("p").requests(cpu=f"{left}m")) == {"a": PASSES}
    assert verdicts(world, pod("p").requests(cpu=f"{left + 1}m"))["a"] != PASSES
    return left


@pytest.mark.parametrize(
    ("wanting", "taken"),
    [
        (pod("p").requests(cpu="1").init_container(cpu="2"), 2000),
        (pod("p").requests(cpu="1").init_container(cpu="2", sidecar=True), 3000),
        (pod("p").requests(cpu="1").init_container(cpu="500m", sidecar=True).init_container(cpu="2"), 2500),
        (pod("p").requests(cpu="1").init_container(cpu="2").init_container(cpu="500m", sidecar=True), 2000),
    ],
    ids=["init container", "sidecar", "init container beside a sidecar", "init container before a sidecar"],
)
def test_sidecars_run_beside_containers_and_init_containers_before_them(
    wanting: PodBuilder, taken: int
) -> None:
    assert free_cpu(wanting.on("a")) == 4000 - taken
    world = cluster(
        nodes=[node("just").capacity(cpu=f"{taken}m"), node("short").capacity(cpu=f"{taken - 1}m")]
    )
    assert verdicts(world, wanting) == {"just": PASSES, "short": too_small("cpu")}


def test_overhead_comes_on_top() -> None:
    heavy = pod("p").requests(cpu="1").spec(overhead={"cpu": "250m"})
    assert free_cpu(heavy.on("a")) == 4000 - 1250
    world = cluster(nodes=[node("just").capacity(cpu="1250m"), node("short").capacity(cpu="1249m")])
    assert verdicts(world, heavy) == {"just": PASSES, "short": too_small("cpu")}


def test_what_the_pod_as_a_whole_asks_for_stands_for_the_sum_of_its_containers() -> None:
    whole = ResourceRequirements(requests={"cpu": "3", "hugepages-2Mi": "4Mi"})
    wanting = pod("p").requests(cpu="1", memory="1Gi").spec(resources=whole)
    assert free_cpu(wanting.on("a")) == 1000
    room = {"cpu": "3", "memory": "1Gi", "hugepages-2Mi": "4Mi"}
    world = cluster(
        nodes=[
            node("just").capacity(room),
            node("cpu").capacity(room).capacity(cpu="2"),
            node("memory").capacity(room).capacity(memory="1Mi"),
            node("pages").capacity(room).capacity({"hugepages-2Mi": "2Mi"}),
        ]
    )
    assert verdicts(world, wanting) == {
        "just": PASSES,
        "cpu": too_small("cpu"),
        "memory": too_small("memory"),
        "pages": too_small("hugepages-2Mi"),
    }


def with_status(wanting: PodBuilder, **status: Any) -> Pod:
    told = convert({"status": {"phase": "Running", **status}}, Pod)
    return replace(wanting.on("a").obj(), status=told.status)


def resized(asked: str, allocated: str, actual: str, *, pending: str = "") -> Pod:
    """A running pod whose only container is being resized."""
    given = {
        "name": "main",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actual}},
    }
    conditions = [{"type": "PodResizePending", "reason": pending}] if pending else []
    return with_status(pod("p").requests(cpu=asked), containerStatuses=[given], conditions=conditions)


@pytest.mark.parametrize(
    ("running", "taken"),
    [
        (resized("1", "2", "3"), 3000),
        (resized("1", "3", "2"), 3000),
        (resized("3", "2", "1"), 3000),
        (resized("3", "2", "1", pending="Deferred"), 3000),
        (resized("3", "2", "1", pending="Infeasible"), 2000),
    ],
    ids=["it still has more", "more is set aside", "it asks for more", "deferred", "infeasible"],
)
def test_a_container_being_resized_takes_the_most_of_what_is_asked_set_aside_and_given(
    running: Pod, taken: int
) -> None:
    assert free_cpu(running) == 4000 - taken


@pytest.mark.parametrize(
    ("asked", "allocated", "actual", "pending", "taken"),
    [
        ("1", "2", "3", "", 3000),
        ("1", "3", "2", "", 3000),
        ("3", "2", "1", "", 3000),
        ("3", "2", "1", "Infeasible", 2000),
    ],
)
def test_a_whole_pod_being_resized_takes_the_most_of_what_its_status_says(
    asked: str, allocated: str, actual: str, pending: str, taken: int
) -> None:
    whole = ResourceRequirements(requests={"cpu": asked})
    running = with_status(
        pod("p").requests(cpu="100m").spec(resources=whole),
        resources={"requests": {"cpu": actual}},
        allocatedResources={"cpu": allocated},
        conditions=[{"type": "PodResizePending", "reason": pending}] if pending else [],
    )
    assert free_cpu(running) == 4000 - taken


def test_a_finished_resize_gives_back_what_is_no_longer_needed() -> None:
    world = cluster(nodes=[node("a").capacity(cpu="4")], pods=[resized("1", "3", "3")])
    assert verdicts(world, pod("q").requests(cpu="2")) == {"a": full("cpu")}
    world.add(resized("1", "1", "1"))
    assert verdicts(world, pod("q").requests(cpu="2")) == {"a": PASSES}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, too_small("cpu", GPU, "other.io/nic")),
        ({"ignoredResources": [GPU]}, too_small("cpu", "other.io/nic")),
        ({"ignoredResourceGroups": ["other.io"]}, too_small("cpu", GPU)),
        ({"ignoredResources": ["cpu", GPU, "other.io/nic"]}, too_small("cpu")),
    ],
    ids=["none", "by name", "by group", "only extended resources can be ignored"],
)
def test_a_profile_can_leave_extended_resources_to_others(args: dict[str, Any], expected: Status) -> None:
    world = cluster(nodes=[node("a").capacity(cpu="1")], config=profile_with("NodeResourcesFit", args))
    assert verdicts(world, pod("p").requests({"cpu": "2", GPU: 1, "other.io/nic": 1})) == {"a": expected}
