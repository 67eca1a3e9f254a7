"""Pods on pretend nodes: they start, end and go; nodes heartbeat, fall silent, ail, recover, vanish."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from stowplan.api.catalogue import CSI_NODES, LEASES, NAMESPACES, NODES, PODS
from stowplan.api.meta import seconds_of
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.localcluster.admission import (
    ClusterAdmission,
    create_bootstrap_objects,
    create_default_account,
)
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings, NodeShape
from stowplan.localcluster.kubelets.config import ShapeDriver
from stowplan.localcluster.kubelets.pods import KubeletAction, KubeletStep, PodMemory, next_step
from stowplan.localcluster.kubelets.pretend import pod_behaviour
from stowplan.localcluster.objects.fields import condition_of
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.testing.faults import Faults, FaultyClient

SETTINGS = KubeletSettings(start_delay=2.0, start_jitter=0.0, stop_delay=3.0, run_seconds=5.0)


class Place:
    def __init__(self, clock: VirtualClock, faults: Faults | None = None) -> None:
        self.clock = clock
        self.store = Store(clock, random.Random(1), admission=ClusterAdmission(), fields=FieldManager())
        create_bootstrap_objects(self.store)
        self.store.create(NAMESPACES, {"metadata": {"name": "d"}})
        create_default_account(self.store, "d")
        self.faults = faults or Faults()
        self.client = FaultyClient(InProcessClient(self.store), self.faults, random.Random(2))
        drivers = (ShapeDriver(name="csi.example", limit=3),)
        shapes = [NodeShape(count=2, name="n", csi=drivers)]
        self.kubelets = Kubelets(self.client, shapes, SETTINGS, clock=clock, rng=random.Random(3))

    def further_kubelets(self, **settings: Any) -> Kubelets:
        """Kubelets that are started later, on nodes that others created."""
        settled = replace(SETTINGS, **settings)
        return Kubelets(self.client, [], settled, clock=self.clock, rng=random.Random(4))

    def add_pod(self, name: str, node: str = "n-0", **about: Any) -> Json:
        metadata = {"name": name, "namespace": "d", **about.pop("metadata", {})}
        spec = {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 30,
            **about,
        }
        return self.store.create(PODS, {"metadata": metadata, "spec": spec})

    def pod(self, name: str) -> Json:
        return self.store.get(PODS, "d", name)

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def ready(self, node: str) -> str:
        return str((condition_of(self.store.get(NODES, "", node), "Ready") or {})["status"])


def live(story: Callable[[Place], Awaitable[None]], faults: Faults | None = None) -> None:
    async def begin(clock: VirtualClock) -> None:
        place = Place(clock, faults)
        async with place.kubelets.running():
            await asyncio.sleep(0.1)
            await story(place)

    run(begin)


def test_nodes_register_with_lease_and_drivers_and_keep_renewing() -> None:
    async def story(place: Place) -> None:
        assert [node["metadata"]["name"] for node in place.store.list(NODES).items] == ["n-0", "n-1"]
        assert place.store.get(CSI_NODES, "", "n-0")["spec"]["drivers"][0]["allocatable"] == {"count": 3}
        lease = place.store.get(LEASES, "kube-node-lease", "n-0")
        assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"
        await asyncio.sleep(100)
        lease = place.store.get(LEASES, "kube-node-lease", "n-0")
        assert place.clock.now() - seconds_of(lease["spec"]["renewTime"]) <= 10.0
        await asyncio.sleep(500)
        ready = condition_of(place.store.get(NODES, "", "n-0"), "Ready") or {}
        assert place.clock.now() - seconds_of(ready["lastHeartbeatTime"]) <= 301.0

    live(story)


def test_a_node_offers_what_somebody_adds_to_its_capacity_until_it_is_taken_away() -> None:
    async def story(place: Place) -> None:
        def status() -> Json:
            found: Json = place.store.get(NODES, "", "n-0")["status"]
            return found

        def add(amount: str | None) -> None:
            body = {"status": {"capacity": {"example.com/tape": amount}}}
            place.store.patch(NODES, "", "n-0", body, PatchType.MERGE, subresource="status")

        before = status()["allocatable"]
        add("7")
        await asyncio.sleep(1)
        assert status()["allocatable"] == {**before, "example.com/tape": "7"}
        add(None)
        await asyncio.sleep(1)
        assert status()["allocatable"] == before

    live(story)


def test_a_bound_pod_runs_after_its_delay_and_looks_like_one_that_does() -> None:
    async def story(place: Place) -> None:
        place.add_pod("p")
        place.add_pod("q")
        place.add_pod("h", hostNetwork=True)
        await asyncio.sleep(1.9)
        assert place.phase("p") == "Pending"
        await asyncio.sleep(0.2)
        status = place.pod("p")["status"]
        assert status["phase"] == "Running"
        assert {one["type"]: one["status"] for one in status["conditions"]} == {
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "ContainersReady": "True",
            "Ready": "True",
        }
        assert status["hostIP"] == "10.128.0.1"
        assert status["podIP"] != place.pod("q")["status"]["podIP"]
        assert place.pod("h")["status"]["podIP"] == "10.128.0.1"
        (container,) = status["containerStatuses"]
        assert container["ready"]
        assert "running" in container["state"]

    live(story)


def test_a_pod_with_a_readiness_gate_is_ready_while_its_condition_is_true() -> None:
    async def story(place: Place) -> None:
        def conditions() -> dict[str, tuple[str, str]]:
            found = place.pod("p")["status"]["conditions"]
            return {one["type"]: (one["status"], one.get("message") or "") for one in found}

        def answer(status: str) -> None:
            condition = {"type": "example.com/lb", "status": status}
            body = {"status": {"conditions": [condition]}}
            place.store.patch(PODS, "d", "p", body, PatchType.STRATEGIC, subresource="status")

        place.add_pod("p", readinessGates=[{"conditionType": "example.com/lb"}])
        await asyncio.sleep(5)
        missing = 'corresponding condition of pod readiness gate "example.com/lb" does not exist.'
        assert conditions()["ContainersReady"][0] == "True"
        assert conditions()["Ready"] == ("False", missing)
        answer("True")
        await asyncio.sleep(1)
        assert conditions()["Ready"] == ("True", "")
        answer("False")
        await asyncio.sleep(1)
        refused = 'the status of pod readiness gate "example.com/lb" is not "True", but False'
        assert conditions()["Ready"] == ("False", refused)

    live(story)


def test_a_pods_address_is_given_to_another_when_it_is_gone() -> None:
    async def story(place: Place) -> None:
        place.add_pod("p")
        await asyncio.sleep(5)
        address = place.pod("p")["status"]["podIP"]
        place.store.delete(PODS, "d", "p", DeleteOptions(0))
        place.add_pod("q")
        await asyncio.sleep(5)
        assert place.pod("q")["status"]["podIP"] == address

    live(story)


def test_a_pod_of_somebody_elses_node_is_left_alone() -> None:
    async def story(place: Place) -> None:
        place.add_pod("p", node="other")
        await asyncio.sleep(60)
        assert place.phase("p") == "Pending"

    live(story)


def test_a_pod_that_sleeps_before_it_stops_keeps_its_place_as_long_within_its_grace_period() -> None:
    def sleeper(seconds: int) -> list[Json]:
        return [{"name": "c", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}]

    async def story(place: Place) -> None:
        place.add_pod("long", containers=sleeper(20))
        place.add_pod("longer", containers=sleeper(29))
        await asyncio.sleep(5)
        for name in ("long", "longer"):
            place.store.delete(PODS, "d", name)
        await asyncio.sleep(22)
        assert len(place.store.list(PODS).items) == 2
        await asyncio.sleep(2)
        assert [pod["metadata"]["name"] for pod in place.store.list(PODS).items] == ["longer"]
        await asyncio.sleep(7)
        assert not place.store.list(PODS).items

    live(story)


def test_a_deleted_pod_takes_its_time_and_goes() -> None:
    async def story(place: Place) -> None:
        place.add_pod("p")
        place.add_pod("hasty", terminationGracePeriodSeconds=1)
        await asyncio.sleep(5)
        for name in ("p", "hasty"):
            place.store.delete(PODS, "d", name)
        await asyncio.sleep(1.5)
        assert [pod["metadata"]["name"] for pod in place.store.list(PODS).items] == ["p"]
        await asyncio.sleep(2)
        assert place.store.list(PODS).items == []

    live(story)


def test_ephemeral_containers_run_as_soon_as_they_are_added() -> None:
    """`kubectl debug -it` waits for that."""

    async def story(place: Place) -> None:
        place.add_pod("p", restartPolicy="Never")
        await asyncio.sleep(3)
        for names in (["a"], ["a", "b"]):
            added = [{"name": name, "image": "i", "terminationMessagePolicy": "File"} for name in names]
            patch = {"spec": {"ephemeralContainers": added}}
            place.store.patch(PODS, "d", "p", patch, PatchType.STRATEGIC, subresource="ephemeralcontainers")
            await asyncio.sleep(0.5)
            statuses = place.pod("p")["status"]["ephemeralContainerStatuses"]
            assert [one["name"] for one in statuses] == names
            assert all("running" in one["state"] for one in statuses)
        await asyncio.sleep(10)
        assert place.phase("p") == "Succeeded"
        statuses = place.pod("p")["status"]["ephemeralContainerStatuses"]
        assert ["terminated" in one["state"] for one in statuses] == [True, True]

    live(story)


def test_other_resources_and_images_of_a_running_pod_show_in_its_status() -> None:
    async def story(place: Place) -> None:
        place.add_pod("p", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}])
        await asyncio.sleep(3)
        larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
        place.store.patch(PODS, "d", "p", larger, PatchType.STRATEGIC, subresource="resize")
        await asyncio.sleep(0.5)
        pod = place.pod("p")
        (status,) = pod["status"]["containerStatuses"]
        assert status["resources"] == {"requests": {"cpu": "2"}}
        assert (status["allocatedResources"], status["restartCount"]) == ({"cpu": "2"}, 0)
        assert pod["status"]["observedGeneration"] == pod["metadata"]["generation"] == 2
        newer = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
        place.store.patch(PODS, "d", "p", newer, PatchType.STRATEGIC)
        await asyncio.sleep(0.5)
        (status,) = place.pod("p")["status"]["containerStatuses"]
        assert (status["image"], status["restartCount"], status["ready"]) == ("i:2", 1, True)
        assert "terminated" in status["lastState"]

    live(story)


def test_a_pod_held_by_a_finalizer_shows_how_it_ended() -> None:
    async def story(place: Place) -> None:
        place.add_pod("p", metadata={"finalizers": ["example.com/held"]})
        await asyncio.sleep(5)
        place.store.delete(PODS, "d", "p")
        await asyncio.sleep(10)
        pod = place.pod("p")
        assert pod["status"]["phase"] == "Failed"
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 0

    live(story)


def test_pods_that_end_by_themselves_end_as_they_are_told() -> None:
    async def story(place: Place) -> None:
        failing = {"annotations": {"pretend.stowplan.io/outcome": "Failed"}}
        long = {"annotations": {"pretend.stowplan.io/run-seconds": "20"}}
        place.add_pod("done", restartPolicy="Never")
        place.add_pod("failed", restartPolicy="Never", metadata=failing)
        place.add_pod("again", restartPolicy="OnFailure", metadata=failing)
        place.add_pod("long", restartPolicy="Never", metadata=long)
        await asyncio.sleep(8)
        phases = {name: place.phase(name) for name in ("done", "failed", "again", "long")}
        assert phases == {"done": "Succeeded", "failed": "Failed", "again": "Running", "long": "Running"}
        assert place.pod("again")["status"]["containerStatuses"][0]["restartCount"] == 1
        await asyncio.sleep(15)
        assert place.phase("long") == "Succeeded"
        ready = condition_of(place.pod("long"), "Ready") or {}
        assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")

    live(story)


def test_a_silent_node_does_nothing_until_it_recovers() -> None:
    async def story(place: Place) -> None:
        place.kubelets.silence("n-0")
        place.add_pod("p")
        place.add_pod("q", node="n-1")
        renewed = place.store.get(LEASES, "kube-node-lease", "n-0")["spec"]["renewTime"]
        await asyncio.sleep(60)
        assert (place.phase("p"), place.phase("q")) == ("Pending", "Running")
        assert place.store.get(LEASES, "kube-node-lease", "n-0")["spec"]["renewTime"] == renewed
        place.kubelets.recover("n-0")
        await asyncio.sleep(1)
        assert place.phase("p") == "Running"
        assert place.store.get(LEASES, "kube-node-lease", "n-0")["spec"]["renewTime"] != renewed

    live(story)


@pytest.mark.parametrize(
    ("status", "reason", "phase"),
    [("Unknown", "NodeStatusUnknown", "Pending"), ("False", "KubeletNotReady", "Running")],
)
def test_a_node_stays_as_it_was_found(status: str, reason: str, phase: str) -> None:
    """The kubelet of a node found with Ready=Unknown is dead; that of one found with False reports it."""

    async def story(place: Place) -> None:
        ready = {"type": "Ready", "status": status, "reason": reason, "message": ""}
        place.store.create(NODES, {"metadata": {"name": "old"}, "status": {"conditions": [ready]}})
        place.add_pod("p", node="old")
        async with place.further_kubelets(adopt=True, as_found=True).running():
            await asyncio.sleep(600)
            assert (place.ready("old"), place.phase("p")) == (status, phase)

    live(story)


@pytest.mark.parametrize("condition", ["Ready", "MemoryPressure"])
def test_a_node_that_ails_says_so_and_takes_it_back(condition: str) -> None:
    async def story(place: Place) -> None:
        def said() -> Any:
            return (condition_of(place.store.get(NODES, "", "n-0"), condition) or {})["status"]

        well = said()
        place.kubelets.ail("n-0", condition)
        await asyncio.sleep(1)
        assert said() != well
        place.kubelets.recover("n-0")
        await asyncio.sleep(1)
        assert said() == well

    live(story)


def test_a_node_vanishes_for_good() -> None:
    async def story(place: Place) -> None:
        place.kubelets.vanish("n-0")
        await asyncio.sleep(60)
        assert [node["metadata"]["name"] for node in place.store.list(NODES).items] == ["n-1"]
        assert place.kubelets.names == ["n-1"]

    live(story)


def test_what_cannot_happen_to_a_node_is_refused_in_one_line() -> None:
    async def story(place: Place) -> None:
        with pytest.raises(ValueError, match="node: there is no kubelet of 'x' here"):
            place.kubelets.silence("x")
        with pytest.raises(ValueError, match="condition: expected one of MemoryPressure"):
            place.kubelets.ail("n-0", "Tired")

    live(story)


def test_kubelets_get_through_a_bad_day_of_the_server() -> None:
    async def story(place: Place) -> None:
        for number in range(20):
            place.add_pod(f"p{number}", node=f"n-{number % 2}")
        await asyncio.sleep(30)
        for number in range(10):
            place.store.delete(PODS, "d", f"p{number}", DeleteOptions())
        await asyncio.sleep(30)
        place.faults.stop()
        await asyncio.sleep(120)
        assert [pod["status"]["phase"] for pod in place.store.list(PODS).items] == ["Running"] * 10
        assert place.ready("n-0") == place.ready("n-1") == "True"

    live(story, Faults(refused=0.3, lost=0.2, cut=0.1, forgotten=0.05, delay=0.5))


def pod(phase: str = "Running", deleting: int | None = None, **about: Any) -> Json:
    metadata: Json = {"name": "p", "uid": "u", **about.pop("metadata", {})}
    if deleting is not None:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": deleting}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": metadata, "spec": about, "status": {"phase": phase, "conditions": ready}}


def telling(**annotations: str) -> Json:
    return {f"pretend.stowplan.io/{name.replace('_', '-')}": value for name, value in annotations.items()}


def memory_of(it: Json, **about: Any) -> PodMemory:
    behaviour, _ = pod_behaviour(it, SETTINGS.pretend, SETTINGS.pod_behaviour)
    memory = PodMemory("u", 100.0, behaviour, {}, ending=120.0, running=110.0, **about)
    memory.behave(it, behaviour, random.Random(0))
    return memory


@pytest.mark.parametrize(
    ("it", "step"),
    [
        (pod("Pending"), KubeletStep(KubeletAction.START, 102.0)),
        (
            pod("Pending", metadata={"annotations": telling(start_seconds="9")}),
            KubeletStep(KubeletAction.START, 109),
        ),
        (pod("Running"), None),
        (pod("Running", restartPolicy="Never"), KubeletStep(KubeletAction.END, 115.0)),
        (
            pod("Running", metadata={"annotations": telling(run_seconds="7")}),
            KubeletStep(KubeletAction.END, 117.0),
        ),
        (
            pod("Running", metadata={"annotations": telling(exit_code="3")}),
            KubeletStep(KubeletAction.END, 115.0),
        ),
        (pod("Succeeded"), None),
        (pod("Failed"), None),
        (pod("Running", deleting=30), KubeletStep(KubeletAction.REMOVE, 123.0)),
        (pod("Running", deleting=1), KubeletStep(KubeletAction.REMOVE, 121.0)),
        (
            pod("Running", deleting=30, metadata={"annotations": telling(stop_seconds="9")}),
            KubeletStep(KubeletAction.REMOVE, 129.0),
        ),
        (pod("Running", deleting=30, metadata={"finalizers": ["f"]}), KubeletStep(KubeletAction.STOP, 123.0)),
        (
            pod("Failed", deleting=30, metadata={"finalizers": ["f"]}),
            KubeletStep(KubeletAction.REMOVE, 123.0),
        ),
    ],
)
def test_what_is_next_for_a_pod(it: Json, step: KubeletStep | None) -> None:
    assert next_step(it, memory_of(it)) == step


def unready(**containers: Any) -> Json:
    it = pod("Running")
    it["status"] |= {
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "c", "ready": False, "state": {}, **containers}],
    }
    return it


def test_a_pod_that_was_found_not_ready_stays_so_unless_only_its_node_was_away() -> None:
    assert next_step(unready(), memory_of(unready())) == KubeletStep(KubeletAction.READY, 110.0)
    assert next_step(unready(), memory_of(unready(), found=True)) is None
    waiting = unready(ready=True)
    assert next_step(waiting, memory_of(waiting, found=True)) == KubeletStep(KubeletAction.READY, 100.0)
