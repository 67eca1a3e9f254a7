"""Containers of simulated pods: image pulls, probes, events, and pods that their node rejects."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from stowplan.api.catalogue import EVENTS, NODES, PODS
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings, NodeShape
from stowplan.localcluster.kubelets.claims import reported_devices
from stowplan.localcluster.kubelets.containerevents import BURST
from stowplan.localcluster.kubelets.pretend import pretend_of
from stowplan.localcluster.objects.fields import condition_of, is_ready
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run

PREFIX = "pretend.stowplan.io/"
IMAGE = "registry.example/app:1"


class Place:
    """Two nodes whose pods start after a second."""

    def __init__(self, clock: VirtualClock, rules: Any = None, **settings: Any) -> None:
        self.clock = clock
        self.store = Store(clock, random.Random(1), admission=ClusterAdmission())
        create_bootstrap_objects(self.store)
        given = KubeletSettings(start_delay=1.0, start_jitter=0.0, pretend=pretend_of(rules or {}))
        self.kubelets = Kubelets(
            InProcessClient(self.store),
            [NodeShape(count=2, name="n")],
            replace(given, **settings),
            clock=clock,
            rng=random.Random(3),
        )

    def add(self, name: str, *, node: str = "n-0", annotations: Json | None = None, **spec: Any) -> None:
        container = {"name": "c", "image": IMAGE, **spec.pop("container", {})}
        metadata = {
            "name": name,
            "namespace": "default",
            "annotations": {f"{PREFIX}{key}": value for key, value in (annotations or {}).items()},
        }
        body = {"nodeName": node, "containers": [container], **spec}
        self.store.create(PODS, {"metadata": metadata, "spec": body})

    def pod(self, name: str) -> Json:
        return self.store.get(PODS, "default", name)

    def waits_with(self, name: str) -> str:
        state = self.pod(name)["status"]["containerStatuses"][0]["state"]
        return str((state.get("waiting") or {}).get("reason", ""))

    def events(self, name: str) -> list[str]:
        found = [one for one in self.store.all(EVENTS) if one["regarding"]["name"] == name]
        found.sort(key=lambda one: str(one["metadata"]["name"]))
        return [f"{one['reason']}: {one['note']}" for one in found]


Story = Callable[[Place], Awaitable[None]]


def play(story: Story, rules: Any = None, **settings: Any) -> None:
    async def begin(clock: VirtualClock) -> None:
        place = Place(clock, rules, **settings)
        async with place.kubelets.running():
            await asyncio.sleep(0.1)
            await story(place)

    run(begin)


STARTED = [
    f'Pulling: Pulling image "{IMAGE}"',
    f'Pulled: Successfully pulled image "{IMAGE}" in 1s (1s including waiting).',
    "Created: Container created",
    "Started: Container started",
]


def test_a_pod_that_starts_has_the_events_of_a_kubelet() -> None:
    async def story(place: Place) -> None:
        place.add("first")
        await asyncio.sleep(2)
        assert place.events("first") == STARTED
        event = next(one for one in place.store.all(EVENTS) if one["reason"] == "Started")
        assert event["deprecatedSource"] == {"component": "kubelet", "host": "n-0"}
        assert event["reportingInstance"] == "n-0"
        assert event["regarding"]["fieldPath"] == "spec.containers{c}"
        place.add("second")
        await asyncio.sleep(2)
        present = (
            f'Pulled: Container image "{IMAGE}" already present on machine and can be accessed by the pod'
        )
        assert place.events("second")[0] == present
        place.add("elsewhere", node="n-1")
        place.add("always", container={"imagePullPolicy": "Always"})
        await asyncio.sleep(2)
        assert place.events("elsewhere")[0] == place.events("always")[0] == STARTED[0]
        place.store.delete(PODS, "default", "first")
        await asyncio.sleep(40)
        assert place.events("first")[-1] == "Killing: Stopping container c"

    play(story)


def test_very_many_pods_at_once_have_no_events_and_warnings_always() -> None:
    async def story(place: Place) -> None:
        for number in range(BURST + 50):
            place.add(f"p{number}")
        await asyncio.sleep(3)
        with_events = {one["regarding"]["name"] for one in place.store.all(EVENTS)}
        assert BURST <= len(with_events) < BURST + 50
        place.add("bad", annotations={"image-pull": "error"})
        await asyncio.sleep(1.5)
        assert any("Failed" in one for one in place.events("bad"))

    play(story)


ERROR = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "nonexistent.invalid/a:1": '
    'failed to resolve reference "nonexistent.invalid/a:1": nonexistent.invalid/a:1: not found'
)


def test_an_image_that_does_not_exist_backs_off() -> None:
    async def story(place: Place) -> None:
        place.add("bad", container={"image": "nonexistent.invalid/a:1"})
        place.add("good")
        await asyncio.sleep(2)
        assert place.waits_with("bad") == "ErrImagePull"
        assert place.pod("good")["status"]["phase"] == "Running"
        await asyncio.sleep(5)
        assert place.waits_with("bad") == "ImagePullBackOff"
        state = place.pod("bad")["status"]["containerStatuses"][0]["state"]["waiting"]
        backoff = 'Back-off pulling image "nonexistent.invalid/a:1"'
        assert state["message"] == f"{backoff}: ErrImagePull: {ERROR}"
        assert place.events("bad") == [
            'Pulling: Pulling image "nonexistent.invalid/a:1"',
            f'Failed: Failed to pull image "nonexistent.invalid/a:1": {ERROR}',
            "Failed: Error: ErrImagePull",
            f"BackOff: {backoff}",
            "Failed: Error: ImagePullBackOff",
        ]
        assert place.pod("bad")["status"]["phase"] == "Pending"
        await asyncio.sleep(600)
        pulls = next(one for one in place.store.all(EVENTS) if one["reason"] == "Pulling")
        # At 1 s, and after 10, 20, 40, 80, 160 and 300 s of back-off.
        assert pulls["deprecatedCount"] == 6
        place.store.delete(PODS, "default", "bad")
        await asyncio.sleep(40)
        assert place.store.find(PODS, "default", "bad") is None

    play(story, missing_images=("nonexistent.invalid/*",))


@pytest.mark.parametrize("image", ["nginx", "docker.io/library/nginx"])
def test_a_pattern_means_the_image_with_the_registry_too(image: str) -> None:
    async def story(place: Place) -> None:
        place.add("p", container={"image": image})
        await asyncio.sleep(2)
        assert place.waits_with("p") == "ErrImagePull"

    play(story, missing_images=("docker.io/library/*",))


def test_other_containers_of_the_pod_run_and_initial_ones_hold_it() -> None:
    async def story(place: Place) -> None:
        bad = {"name": "bad", "image": "x.invalid/a"}
        place.add("side", containers=[{"name": "good", "image": IMAGE}, bad])
        place.add("init", initContainers=[bad])
        await asyncio.sleep(2)
        side, init = place.pod("side")["status"], place.pod("init")["status"]
        assert [("running" in one["state"], one["ready"]) for one in side["containerStatuses"]] == [
            (True, True),
            (False, False),
        ]
        assert (condition_of({"status": side}, "Ready") or {})["message"] == (
            "containers with unready status: [bad]"
        )
        assert init["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImagePull"
        assert init["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
        assert (condition_of({"status": init}, "Initialized") or {})["status"] == "False"

    play(story, missing_images=("x.invalid/*",))


def test_pulls_may_be_slow_or_never_end_and_annotations_are_followed() -> None:
    def tell(place: Place, value: str | None) -> None:
        patch = {"metadata": {"annotations": {f"{PREFIX}image-pull": value}}}
        place.store.patch(NODES, "", "n-0", patch, PatchType.MERGE)

    async def story(place: Place) -> None:
        place.add("slow", annotations={"image-pull": "slow"})
        tell(place, "never")
        place.add("never")
        place.add("own", annotations={"image-pull": "false"}, container={"image": "other:1"})
        await asyncio.sleep(10)
        assert place.waits_with("slow") == place.waits_with("never") == "ContainerCreating"
        assert place.events("never") == [STARTED[0]]
        assert place.pod("own")["status"]["phase"] == "Running", "a pod's annotation overrides its node's"
        await asyncio.sleep(25)
        assert place.pod("slow")["status"]["phase"] == "Running"
        assert "in 30s (30s including waiting)" in place.events("slow")[1]
        await asyncio.sleep(1000)
        assert place.waits_with("never") == "ContainerCreating"
        tell(place, "error")
        await asyncio.sleep(1)
        assert place.pod("never")["status"]["phase"] == "Running", "slow has brought the image by now"
        place.add("failing", container={"image": "new:1"})
        await asyncio.sleep(2)
        assert place.waits_with("failing") == "ErrImagePull"
        tell(place, None)
        await asyncio.sleep(1)
        assert place.pod("failing")["status"]["phase"] == "Running"

    play(story)


def test_rules_of_a_file_say_so_too_and_bad_values_are_told() -> None:
    async def story(place: Place) -> None:
        place.add("p")
        place.add("odd", node="n-1", annotations={"image-pull": "sometimes", "liveness-probe": "no"})
        await asyncio.sleep(2)
        assert place.waits_with("p") == "ErrImagePull"
        told = [one for one in place.events("odd") if one.startswith("InvalidAnnotation")]
        assert "expected one of false, never, slow, error, got 'sometimes'" in told[0]
        assert "expected pass or fail, got 'no'" in told[1]

    play(
        story,
        {"nodes": [{"selector": {"matchLabels": {"kubernetes.io/hostname": "n-0"}}, "imagePull": "error"}]},
    )


FALSE = {"exec": {"command": ["/bin/false"]}, "periodSeconds": 5}
PROBE = {"httpGet": {"port": 80}, "periodSeconds": 5}


def test_probes_pass_unless_they_cannot() -> None:
    async def story(place: Place) -> None:
        place.add("passes", container={"readinessProbe": PROBE, "livenessProbe": PROBE})
        place.add("fails", container={"readinessProbe": FALSE})
        sidecar = {"name": "side", "image": IMAGE}
        told = {"readiness-probe": "fail"}
        place.add(
            "told",
            annotations=told,
            containers=[{"name": "c", "image": IMAGE, "readinessProbe": PROBE}, sidecar],
        )
        place.add("none", annotations=told)
        await asyncio.sleep(2)
        assert [is_ready(place.pod(name)) for name in ("passes", "fails", "told", "none")] == [
            True,
            False,
            False,
            True,
        ]
        flags = [one["ready"] for one in place.pod("told")["status"]["containerStatuses"]]
        assert flags == [False, True]
        assert place.events("fails")[-1] == "Unhealthy: Readiness probe failed: "
        version = place.store.version
        await asyncio.sleep(100)
        assert all(one["metadata"]["name"] != "fails" for one in changed_since(place, version))
        annotate(place, "told", "pass")
        annotate(place, "passes", "fail")
        await asyncio.sleep(1)
        assert is_ready(place.pod("told"))
        assert not is_ready(place.pod("passes"))
        assert place.pod("passes")["status"]["containerStatuses"][0]["restartCount"] == 0

    play(story)


def test_a_readiness_probe_begins_after_its_initial_delay() -> None:
    async def story(place: Place) -> None:
        probe = {"readinessProbe": {**PROBE, "initialDelaySeconds": 30}}
        place.add("late", container=probe)
        place.add("told", container=probe, annotations={"ready-seconds": "5"})
        place.add("at-once", container=probe, annotations={"start-seconds": "0"})
        await asyncio.sleep(10)
        ready = [is_ready(place.pod(name)) for name in ("late", "told", "at-once")]
        assert ready == [False, True, True]
        await asyncio.sleep(22)
        assert is_ready(place.pod("late"))

    play(story)


def changed_since(place: Place, version: int) -> list[Json]:
    return [pod for pod in place.store.all(PODS) if int(pod["metadata"]["resourceVersion"]) > version]


def annotate(place: Place, name: str, value: str) -> None:
    patch = {"metadata": {"annotations": {f"{PREFIX}readiness-probe": value}}}
    place.store.patch(PODS, "default", name, patch, PatchType.MERGE)


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_container_that_fails_its_probe_is_killed_and_restarted(kind: str) -> None:
    async def story(place: Place) -> None:
        probe = {**PROBE, "initialDelaySeconds": 10, "failureThreshold": 3}
        place.add("p", annotations={f"{kind}-probe": "fail"}, container={f"{kind}Probe": probe})
        await asyncio.sleep(20)
        assert place.pod("p")["status"]["containerStatuses"][0]["restartCount"] == 0
        assert is_ready(place.pod("p")) is (kind == "liveness")
        await asyncio.sleep(3)
        status = place.pod("p")["status"]["containerStatuses"][0]
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 137
        events = place.events("p")
        assert f"Unhealthy: {kind.capitalize()} probe failed: " in events
        assert f"Killing: Container c failed {kind} probe, will be restarted" in events
        await asyncio.sleep(25)
        assert place.waits_with("p") == "CrashLoopBackOff"

    play(story)


def test_a_host_port_that_is_taken_is_rejected() -> None:
    ports = {"ports": [{"containerPort": 80, "hostPort": 8080}]}

    async def story(place: Place) -> None:
        place.add("holds", container=ports)
        await asyncio.sleep(2)
        place.add("late", container=ports)
        place.add("elsewhere", node="n-1", container=ports)
        place.add("udp", container={"ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]})
        await asyncio.sleep(2)
        late = place.pod("late")["status"]
        assert (late["phase"], late["reason"]) == ("Failed", "NodePorts")
        why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        assert late["message"] == f"Pod was rejected: {why}"
        assert place.events("late") == [f"NodePorts: {why}"]
        for name in ("holds", "elsewhere", "udp"):
            assert place.pod(name)["status"]["phase"] == "Running"

    play(story)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"os": {"name": "windows"}}, "PodOSNotSupported"),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "PodOSSelectorNodeLabelDoesNotMatch"),
        ({"os": {"name": "linux"}}, None),
    ],
)
def test_a_pod_for_another_system_is_rejected(spec: Json, reason: str | None) -> None:
    async def story(place: Place) -> None:
        place.add("p", **spec)
        await asyncio.sleep(2)
        status = place.pod("p")["status"]
        assert status.get("reason") == reason
        assert status["phase"] == ("Failed" if reason else "Running")

    play(story)


def test_statuses_have_resources_and_conditions_a_generation() -> None:
    async def story(place: Place) -> None:
        amounts = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
        place.add("sized", container={"resources": amounts})
        place.add("plain")
        await asyncio.sleep(2)
        sized, plain = (place.pod(name)["status"] for name in ("sized", "plain"))
        assert sized["containerStatuses"][0]["resources"] == amounts
        assert sized["containerStatuses"][0]["allocatedResources"] == {"cpu": "1"}
        assert plain["containerStatuses"][0]["resources"] == {}
        written = {"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"}
        seen = {one["type"]: one.get("observedGeneration") for one in plain["conditions"]}
        assert {kind: seen[kind] for kind in written} == dict.fromkeys(written, 1)

    play(story)


def test_devices_are_reported_by_simulated_drivers_only() -> None:
    results = [
        {"driver": name, "pool": "n", "device": "d"} for name in ("gpu.example.com", "real.example.com")
    ]
    claim = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    found = reported_devices(claim, pod, {"gpu.example.com"}, "2026-01-01T00:00:00Z")
    assert found is not None
    assert [one["driver"] for one in found] == ["gpu.example.com"]
    assert reported_devices(claim, pod, set(), "") is None
