"""How pods and nodes behave: by annotations, and by the rules of a file."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.catalogue import EVENTS, LEASES, NODES, PODS
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings, NodeShape, PretendError, read_pretend
from stowplan.localcluster.kubelets.pretend import POD_ANNOTATIONS, PretendSpan, pretend_of, span_of
from stowplan.localcluster.objects.fields import condition_of, is_ready
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run

PREFIX = "pretend.stowplan.io/"


class Place:
    """Two nodes, whose pods start at once by default."""

    def __init__(self, clock: VirtualClock, rules: Any, **settings: Any) -> None:
        self.clock = clock
        self.store = Store(clock, random.Random(1), admission=ClusterAdmission())
        create_bootstrap_objects(self.store)
        self.reports: list[str] = []
        given = KubeletSettings(
            start_delay=0.0, start_jitter=0.0, stop_delay=0.0, adopt=True, pretend=pretend_of(rules)
        )
        self.kubelets = Kubelets(
            InProcessClient(self.store),
            [NodeShape(count=2, name="n", labels={"pool": "spot"})],
            replace(given, **settings),
            clock=clock,
            rng=random.Random(3),
            report=self.reports.append,
        )

    def add(self, name: str, policy: str = "Always", labels: Json | None = None, **annotations: str) -> None:
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": labels or {},
            "annotations": {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()},
        }
        spec = {
            "nodeName": "n-0",
            "restartPolicy": policy,
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 60,
        }
        self.store.create(PODS, {"metadata": metadata, "spec": spec})

    def pod(self, name: str) -> Json:
        return self.store.get(PODS, "default", name)

    def container(self, name: str) -> Json:
        found: Json = self.pod(name)["status"]["containerStatuses"][0]
        return found

    def annotate(self, node: str, **annotations: str | None) -> None:
        given = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.store.patch(NODES, "", node, {"metadata": {"annotations": given}}, PatchType.MERGE)

    def condition(self, node: str, kind: str = "Ready") -> Json:
        return condition_of(self.store.get(NODES, "", node), kind) or {}

    def renewed(self, node: str) -> str:
        return str(self.store.get(LEASES, "kube-node-lease", node)["spec"]["renewTime"])


def live(story: Callable[[Place], Awaitable[None]], rules: Any = None, **settings: Any) -> None:
    async def begin(clock: VirtualClock) -> None:
        place = Place(clock, rules or {}, **settings)
        async with place.kubelets.running():
            await asyncio.sleep(0.1)
            await story(place)

    run(begin)


def test_a_pod_takes_its_time_to_start_to_be_ready_and_to_stop() -> None:
    async def story(place: Place) -> None:
        place.add("p", start_seconds="3", ready_seconds="4", stop_seconds="5")
        await asyncio.sleep(2.9)
        assert place.pod("p")["status"]["phase"] == "Pending"
        await asyncio.sleep(0.2)
        assert place.pod("p")["status"]["phase"] == "Running"
        unready = condition_of(place.pod("p"), "Ready") or {}
        assert (unready["status"], unready["reason"]) == ("False", "ContainersNotReady")
        assert unready["message"] == "containers with unready status: [c]"
        started = place.container("p")["state"]
        await asyncio.sleep(4)
        ready = condition_of(place.pod("p"), "Ready") or {}
        assert ready["status"] == "True"
        assert "reason" not in ready
        assert "message" not in ready
        assert place.container("p")["state"] == started
        place.store.delete(PODS, "default", "p")
        await asyncio.sleep(4.9)
        assert place.store.find(PODS, "default", "p") is not None
        await asyncio.sleep(0.2)
        assert place.store.find(PODS, "default", "p") is None

    live(story)


def test_a_container_that_crashes_is_restarted_at_once_and_then_ever_later() -> None:
    async def story(place: Place) -> None:
        place.add("p", run_seconds="1", exit_code="3")
        await asyncio.sleep(1.1)
        assert (place.container("p")["restartCount"], is_ready(place.pod("p"))) == (1, True)
        assert place.container("p")["lastState"]["terminated"]["exitCode"] == 3
        await asyncio.sleep(1)
        waiting = place.container("p")
        assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert waiting["state"]["waiting"]["message"].startswith("back-off 10s restarting failed container=c")
        assert waiting["lastState"]["terminated"]["reason"] == "Error"
        assert not is_ready(place.pod("p"))
        assert place.pod("p")["status"]["phase"] == "Running"
        assert "BackOff" in {event["reason"] for event in place.store.list(EVENTS).items}
        await asyncio.sleep(10)
        assert (place.container("p")["restartCount"], is_ready(place.pod("p"))) == (2, True)
        await asyncio.sleep(1 + 19)
        assert place.container("p")["restartCount"] == 2
        await asyncio.sleep(1.1)
        assert place.container("p")["restartCount"] == 3

    live(story)


@pytest.mark.parametrize(
    ("policy", "annotations", "phase", "code"),
    [
        ("Never", {"run_seconds": "1"}, "Succeeded", 0),
        ("Never", {"run_seconds": "1", "exit_code": "7"}, "Failed", 7),
        ("Never", {"run_seconds": "1", "outcome": "Failed"}, "Failed", 1),
        ("OnFailure", {"run_seconds": "1"}, "Succeeded", 0),
        ("Never", {"run_seconds": "1", "failure_probability": "1"}, "Failed", 1),
        ("Never", {"run_seconds": "1", "failure_probability": "1", "exit_code": "9"}, "Failed", 9),
        ("Never", {"run_seconds": "1", "failure_probability": "0", "exit_code": "9"}, "Succeeded", 0),
    ],
)
def test_a_pod_ends_as_it_is_told(policy: str, annotations: dict[str, Any], phase: str, code: int) -> None:
    async def story(place: Place) -> None:
        place.add("p", policy, **annotations)
        await asyncio.sleep(1.2)
        assert place.pod("p")["status"]["phase"] == phase
        assert place.container("p")["state"]["terminated"]["exitCode"] == code

    live(story)


def test_chance_decides_by_its_share() -> None:
    async def story(place: Place) -> None:
        for number in range(200):
            place.add(f"p{number}", "Never", run_seconds="1", failure_probability="0.25")
        await asyncio.sleep(3)
        failed = sum(pod["status"]["phase"] == "Failed" for pod in place.store.list(PODS).items)
        assert 30 < failed < 70

    live(story)


def test_an_annotation_can_be_set_while_a_pod_runs() -> None:
    async def story(place: Place) -> None:
        place.add("p", "Never", run_seconds="1000")
        await asyncio.sleep(1)
        patch = {"metadata": {"annotations": {f"{PREFIX}run-seconds": "2"}}}
        place.store.patch(PODS, "default", "p", patch, PatchType.MERGE)
        await asyncio.sleep(1.5)
        assert place.pod("p")["status"]["phase"] == "Succeeded"

    live(story)


def test_containers_wait_with_the_failure_that_they_are_given_until_it_is_taken_away() -> None:
    async def story(place: Place) -> None:
        place.add("pull", start_failure="ImagePullBackOff")
        place.add("config", start_failure='CreateContainerConfigError: configmap "app" not found')
        place.add("mount", start_failure="FailedMount")
        await asyncio.sleep(1)
        waiting = {name: place.container(name)["state"]["waiting"] for name in ("pull", "config", "mount")}
        assert waiting == {
            "pull": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "i"'},
            "config": {"reason": "CreateContainerConfigError", "message": 'configmap "app" not found'},
            "mount": {"reason": "ContainerCreating"},
        }
        assert not is_ready(place.pod("pull"))
        events = {(one["regarding"]["name"], one["reason"]) for one in place.store.list(EVENTS).items}
        assert events == {("pull", "BackOff"), ("config", "Failed"), ("mount", "FailedMount")}
        assert not place.reports
        patch = {"metadata": {"annotations": {f"{PREFIX}start-failure": None}}}
        place.store.patch(PODS, "default", "pull", patch, PatchType.MERGE)
        await asyncio.sleep(1)
        assert is_ready(place.pod("pull"))
        assert "running" in place.container("pull")["state"]

    live(story)


def test_an_annotation_that_cannot_be_read_is_told_in_an_event_and_has_no_effect() -> None:
    async def story(place: Place) -> None:
        place.add(
            "p",
            "Never",
            run_seconds="long",
            rum_seconds="1",
            start_seconds="0",
            cpu_usage="x",
            start_failure="No",
        )
        await asyncio.sleep(1)
        notes = {event["note"].partition(": ")[2] for event in place.store.list(EVENTS).items}
        assert "expected seconds such as 5 or a range such as 2-5, got 'long'" in notes
        assert "expected an amount such as 250m or a percentage such as 80%, got 'x'" in notes
        assert any(
            note.startswith("there is no such annotation of pods; there is start-seconds") for note in notes
        )
        assert any(note.startswith("expected one of ErrImagePull, ImagePullBackOff, ") for note in notes)
        assert place.pod("p")["status"]["phase"] == "Running"

    live(story)


RULES = {
    "pods": [
        {"selector": {"matchLabels": {"app": "flaky"}}, "runSeconds": 1, "exitCode": 2},
        {
            "namespaces": ["default"],
            "selector": {"matchExpressions": [{"key": "slow", "operator": "Exists"}]},
            "startSeconds": "5-6",
        },
        {"readySeconds": 2},
    ],
    "nodes": [
        {
            "selector": {"matchLabels": {"pool": "spot"}},
            "heartbeatSeconds": 2,
            "failures": [{"afterSeconds": 20, "forSeconds": 10, "everySeconds": 60}],
        },
    ],
    "crashLoopBackOff": {"initialSeconds": 1, "maxSeconds": 2},
}


def test_the_first_rule_that_selects_a_pod_counts_and_annotations_override_it() -> None:
    async def story(place: Place) -> None:
        place.add("flaky", labels={"app": "flaky"})
        place.add("steady", labels={"app": "flaky"}, run_seconds="1000")
        place.add("slow", labels={"slow": ""})
        place.add("other")
        await asyncio.sleep(1.5)
        assert place.container("flaky")["restartCount"] == 1
        assert place.container("steady")["restartCount"] == 0
        assert place.pod("slow")["status"]["phase"] == "Pending"
        assert [is_ready(place.pod(name)) for name in ("flaky", "other")] == [True, False]
        await asyncio.sleep(5)
        assert is_ready(place.pod("slow"))
        assert is_ready(place.pod("other"))
        await asyncio.sleep(10)
        assert place.container("flaky")["restartCount"] >= 5

    live(story, RULES)


def test_nodes_heartbeat_and_fail_as_rules_say() -> None:
    async def story(place: Place) -> None:
        first = place.renewed("n-0")
        await asyncio.sleep(4.5)
        assert place.renewed("n-0") != first
        statuses = []
        for _ in range(9):
            await asyncio.sleep(10)
            statuses.append(place.condition("n-0")["status"])
        assert statuses == ["True", "False", "True", "True", "True", "True", "True", "False", "True"]

    live(story, RULES)


def test_a_node_fails_while_its_annotation_says_so() -> None:
    async def story(place: Place) -> None:
        place.annotate("n-0", fail="true")
        renewed = place.renewed("n-0")
        place.add("p")
        await asyncio.sleep(60)
        assert (place.renewed("n-0"), place.pod("p")["status"]["phase"]) == (renewed, "Pending")
        place.annotate("n-0", fail=None)
        await asyncio.sleep(1)
        assert place.renewed("n-0") != renewed
        assert place.pod("p")["status"]["phase"] == "Running"
        place.annotate("n-0", fail="MemoryPressure")
        await asyncio.sleep(1)
        assert place.condition("n-0", "MemoryPressure")["status"] == "True"
        place.annotate("n-0", fail="false")
        await asyncio.sleep(1)
        assert place.condition("n-0", "MemoryPressure")["status"] == "False"
        place.annotate("n-0", fail="perhaps")
        await asyncio.sleep(1)
        assert place.reports == [
            "node n-0: pretend.stowplan.io/fail: expected true, false or one of Silent, NotReady, "
            "MemoryPressure, DiskPressure, PIDPressure, got 'perhaps'"
        ]

    live(story)


def test_a_node_that_somebody_creates_is_adopted_and_completed() -> None:
    async def story(place: Place) -> None:
        place.store.create(NODES, {"metadata": {"name": "mine", "labels": {"a": "b"}}})
        place.store.create(NODES, {"metadata": {"name": "sized"}, "status": {"capacity": {"cpu": "2"}}})
        await asyncio.sleep(1)
        mine, sized = (place.store.get(NODES, "", name) for name in ("mine", "sized"))
        assert mine["metadata"]["labels"] == {
            "a": "b",
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": "mine",
            "kubernetes.io/os": "linux",
        }
        assert mine["status"]["allocatable"]["pods"] == "110"
        assert sized["status"]["allocatable"] == sized["status"]["capacity"] == {"cpu": "2"}
        assert place.condition("mine")["status"] == place.condition("sized")["status"] == "True"
        assert place.renewed("mine")
        place.store.delete(NODES, "", "mine")
        await asyncio.sleep(1)
        place.store.create(NODES, {"metadata": {"name": "mine"}})
        await asyncio.sleep(1)
        assert place.condition("mine")["status"] == "True"

    live(story)


def test_without_adoption_a_node_of_somebody_else_is_left_alone() -> None:
    async def story(place: Place) -> None:
        place.store.create(NODES, {"metadata": {"name": "mine"}})
        await asyncio.sleep(1)
        assert not place.condition("mine")

    live(story, adopt=False)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"pod": []}, "file: object contains unknown field `pod`"),
        ([], "file: expected `object`, got `array`"),
        ({"pods": [{"runSecond": 1}]}, "pods[0]: object contains unknown field `runSecond`"),
        ({"pods": [{}, {"runSeconds": "5-2"}]}, "pods[1].runSeconds: expected seconds such as 5"),
        ({"pods": [{"runSeconds": -1}]}, "pods[0].runSeconds: expected seconds such as 5"),
        ({"pods": [{"exitCode": 256}]}, "pods[0].exitCode: expected an exit code from 0 to 255, got 256"),
        ({"pods": [{"outcome": "Lost"}]}, "pods[0].outcome: expected Succeeded or Failed, got 'Lost'"),
        ({"pods": [{"failureProbability": 2}]}, "pods[0].failureProbability: expected a probability"),
        (
            {"pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]},
            'pods[0].selector: "Like" is not a valid label selector operator',
        ),
        ({"nodes": [{"heartbeatSeconds": 0}]}, "nodes[0].heartbeatSeconds: expected more than 0"),
        (
            {"nodes": [{"failures": [{"afterSeconds": 1, "forSeconds": 1, "failure": "Odd"}]}]},
            "nodes[0].failures[0].failure: expected true, false or one of Silent",
        ),
        (
            {"nodes": [{"failures": [{"afterSeconds": 1, "forSeconds": 5, "everySeconds": 5}]}]},
            "nodes[0].failures[0].everySeconds: expected more than forSeconds, got 5",
        ),
        ({"crashLoopBackOff": {"initialSeconds": 9, "maxSeconds": 1}}, "crashLoopBackOff: expected"),
    ],
)
def test_a_wrong_file_gets_one_line_that_names_the_field(tmp_path: Path, rules: Any, told: str) -> None:
    with pytest.raises(PretendError) as refused:
        pretend_of(rules)
    assert str(refused.value).startswith(told)
    with pytest.raises(PretendError, match=r"nothing\.yaml: No such file"):
        read_pretend(tmp_path / "nothing.yaml")


def test_seconds_are_a_number_or_a_range() -> None:
    assert (span_of("5"), span_of(2.5), span_of("1-2.5")) == (
        PretendSpan(5, 5),
        PretendSpan(2.5, 2.5),
        PretendSpan(1, 2.5),
    )
    drawn = {span_of("1-2").draw(random.Random(seed)) for seed in range(20)}
    assert len(drawn) > 10
    assert all(1 <= seconds <= 2 for seconds in drawn)
    assert len(POD_ANNOTATIONS) == 14
