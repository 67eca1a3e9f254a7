"""When a node is overcommitted by us, and when it is not our fault."""

from typing import Any

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.lab.chaos import plan_of
from stowplan.lab.chaos.invariants import Bindings
from stowplan.lab.chaos.world import ChaosWorld
from stowplan.localcluster.client import typed


class Still:
    """A clock that stands still."""

    def now(self) -> float:
        return 1_767_225_600.0

    def monotonic(self) -> float:
        return self.now()


class Desk:
    """One node with one CPU, and pods that are decided for and bound by hand."""

    def __init__(self) -> None:
        self.world = ChaosWorld(plan_of(0), Still())
        self.bindings = Bindings(self.world)
        allocatable = {"cpu": "1", "memory": "1Gi", "pods": "9"}
        made = self.world.store.create(
            NODES, {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
        )
        self.node = typed(made, Node)

    def pod(self, name: str, cpu: str = "600m", port: int = 0, on: str = "") -> Pod:
        container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}
        if port:
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        spec = {"containers": [container], **({"nodeName": on} if on else {})}
        body = {"metadata": {"name": name, "namespace": "d"}, "spec": spec}
        return typed(self.world.store.create(PODS, body), Pod)

    def decide(self, pod: Pod, *others: Pod, scheduler: int = 1) -> None:
        known = {other.metadata.uid for other in others}
        self.bindings.decide(scheduler, pod, "n", self.node, known)

    def bind(self, pod: Pod, *, scheduler: int = 1, acknowledged: bool = True) -> None:
        uid = pod.metadata.uid
        self.bindings.begin(uid, "n", scheduler)
        self.world.store.bind("d", pod.name, {"metadata": {"uid": uid}, "target": {"name": "n"}})
        self.bindings.applied(uid, "n")
        self.bindings.end(uid, acknowledged=acknowledged)

    @property
    def broken(self) -> list[str]:
        return [finding.invariant for finding in self.world.findings.found]


OVERCOMMITTED = ["no node is overcommitted"]


def test_what_fits_is_fine() -> None:
    desk = Desk()
    first, second = desk.pod("a", "500m"), desk.pod("b", "500m")
    desk.decide(first)
    desk.bind(first)
    desk.decide(second, first)
    desk.bind(second)
    assert desk.broken == []


def test_a_pod_that_was_told_of_counts() -> None:
    desk = Desk()
    theirs, ours = desk.pod("a", on="n"), desk.pod("b")
    desk.decide(ours, theirs)
    desk.bind(ours)
    assert desk.broken == OVERCOMMITTED


def test_a_pod_bound_behind_our_back_does_not_count() -> None:
    desk = Desk()
    ours = desk.pod("b")
    desk.decide(ours)
    desk.pod("a", on="n")
    desk.bind(ours)
    assert desk.broken == []


def test_an_earlier_pod_of_ours_counts_before_it_is_told_of() -> None:
    desk = Desk()
    first, second = desk.pod("a"), desk.pod("b")
    desk.decide(first)
    desk.bind(first)
    desk.decide(second)
    desk.bind(second)
    assert desk.broken == OVERCOMMITTED


def test_an_earlier_pod_of_ours_counts_though_its_binding_takes_longer() -> None:
    desk = Desk()
    first, second = desk.pod("a"), desk.pod("b")
    desk.decide(first)
    desk.decide(second)
    desk.bind(second)
    assert desk.broken == []
    desk.bind(first)
    assert desk.broken == OVERCOMMITTED


def test_a_binding_that_seemed_to_fail_does_not_count_until_it_is_told_of() -> None:
    desk = Desk()
    first, second = desk.pod("a"), desk.pod("b")
    desk.decide(first)
    desk.bind(first, acknowledged=False)
    desk.decide(second)
    desk.bind(second)
    assert desk.broken == []


def test_what_the_scheduler_before_did_has_to_be_told_of() -> None:
    desk = Desk()
    first, second = desk.pod("a"), desk.pod("b")
    desk.decide(first)
    desk.bind(first)
    desk.decide(second, scheduler=2)
    desk.bind(second, scheduler=2)
    assert desk.broken == []


def test_the_quarrels_of_others_about_a_port_are_not_ours() -> None:
    desk = Desk()
    others = [desk.pod("a", "100m", 80, on="n"), desk.pod("b", "100m", 80, on="n")]
    quiet, third = desk.pod("c", "100m"), desk.pod("d", "100m", 80)
    desk.decide(quiet, *others)
    desk.bind(quiet)
    assert desk.broken == []
    desk.decide(third, *others)
    desk.bind(third)
    assert desk.broken == OVERCOMMITTED


def test_binding_again_what_was_bound_is_noticed() -> None:
    desk = Desk()
    pod = desk.pod("a")
    desk.decide(pod)
    desk.bind(pod)
    desk.bindings.begin(pod.metadata.uid, "n", 1)
    assert desk.broken == ["no pod is bound twice"]


def test_a_binding_nobody_decided_is_noticed() -> None:
    desk = Desk()
    desk.bindings.begin(desk.pod("a").metadata.uid, "n", 1)
    assert desk.broken == ["bindings follow decisions"]
