"""Decisions of control loops, by tables: no store, no waiting."""

from typing import Any

import pytest

from stowplan.api.catalogue import PODS, STATEFUL_SETS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import merge_patch_of
from stowplan.localcluster.controllers.garbagecollector import (
    CollectorAction,
    action_for,
    blocks_owner,
    propagation_for,
)
from stowplan.localcluster.controllers.nodes.nodelifecycle import ZoneHealth, taints_for
from stowplan.localcluster.controllers.nodes.podgc import pods_to_remove
from stowplan.localcluster.controllers.nodes.tainteviction import min_toleration_seconds
from stowplan.localcluster.controllers.storage.persistentvolume import (
    VolumeStep,
    best_volume,
    claim_step,
    volume_step,
)
from stowplan.localcluster.controllers.workloads.daemonset import (
    Daemon,
    DaemonSetPlan,
    FailureBackoff,
    affinity_for,
    plan,
    tolerations_of,
    updates,
)
from stowplan.localcluster.controllers.workloads.daemonset import DaemonSetView as DaemonView
from stowplan.localcluster.controllers.workloads.disruption import (
    Expectation,
    budget_status,
    expectation,
    unconfirmed,
)
from stowplan.localcluster.controllers.workloads.podcontrol import scaled_value, short_hash
from stowplan.localcluster.controllers.workloads.statefulset import (
    MOST_STEPS,
    Create,
    Delete,
    StatefulSetView,
    claim_owners,
    next_steps,
)
from stowplan.localcluster.objects.fields import controller_reference

STAMP = "2026-01-01T00:00:00Z"


def pod(
    name: str = "p", phase: str = "Running", *, ready: bool = True, deleting: bool = False, **meta: Any
) -> Json:
    metadata: Json = {"name": name, "uid": f"u-{name}", "namespace": "d", **meta}
    if deleting:
        metadata["deletionTimestamp"] = STAMP
    value = "True" if ready and phase == "Running" else "False"
    return {
        "metadata": metadata,
        "spec": {},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": value}]},
    }


# Small things


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"y": 3}}, {"m": {"x": None, "y": 3}}),
        ({}, {"m": {}}, {"m": {}}),
        ({"m": {"x": 1}}, {"m": {}}, {"m": {"x": None}}),
        ({"l": [1]}, {"l": []}, {"l": []}),
    ],
)
def test_a_patch_says_only_what_differs(old: Json, new: Json, patch: Json) -> None:
    assert merge_patch_of(old, new) == patch


@pytest.mark.parametrize(
    ("value", "up", "number"),
    [
        (3, True, 3),
        ("25%", True, 3),
        ("25%", False, 2),
        (None, False, 1),
        ("x", True, 0),
        ("100%", False, 10),
    ],
)
def test_a_share_is_a_number_or_a_percentage(value: Any, up: bool, number: int) -> None:
    assert scaled_value(value, 10, 1, round_up=up) == number


def test_equal_data_has_one_hash_whatever_its_order() -> None:
    assert short_hash({"a": 1, "b": [2]}) == short_hash({"b": [2], "a": 1})
    assert len({short_hash({"a": 1}), short_hash({"a": 2}), short_hash({"a": 1}, 1)}) == 3


# StatefulSets


def stateful(pods: dict[int, Json], replicas: int = 3, update: str = "r1", **spec: Any) -> StatefulSetView:
    obj = {"metadata": {"name": "db"}, "spec": {"replicas": replicas, **spec}}
    return StatefulSetView(obj, pods, "r1", update, 0.0)


def member(ordinal: int, revision: str = "r1", **about: Any) -> Json:
    return pod(f"db-{ordinal}", labels={"controller-revision-hash": revision}, **about)


@pytest.mark.parametrize(
    ("view", "steps"),
    [
        (stateful({}), ["+0"]),
        (stateful({0: member(0, ready=False)}), []),
        (stateful({0: member(0)}), ["+1"]),
        (stateful({}, podManagementPolicy="Parallel"), ["+0", "+1", "+2"]),
        (stateful({0: member(0, phase="Failed")}), ["-0"]),
        (stateful({0: member(0), 1: member(1, deleting=True)}), []),
        (stateful({0: member(0), 1: member(1), 2: member(2)}, 1), ["-2"]),
        (stateful({0: member(0), 1: member(1), 2: member(2, deleting=True)}, 1), []),
        (stateful({0: member(0), 1: member(1), 2: member(2, ready=False)}, 1), ["-2"]),
        (stateful({0: member(0), 1: member(1, ready=False), 2: member(2)}, 1), ["-2"]),
        (stateful({0: member(0), 1: member(1, ready=False), 2: member(2, ready=False)}, 1), []),
        (
            stateful({0: member(0), 1: member(1), 2: member(2)}, 1, podManagementPolicy="Parallel"),
            ["-2", "-1"],
        ),
        (stateful({0: member(0), 1: member(1), 2: member(2)}, update="r2"), ["-2"]),
        (stateful({0: member(0), 1: member(1), 2: member(2, "r2", ready=False)}, update="r2"), []),
        (stateful({0: member(0), 1: member(1), 2: member(2, "r2")}, update="r2"), ["-1"]),
        (
            stateful(
                {0: member(0), 1: member(1), 2: member(2, "r2")},
                update="r2",
                updateStrategy={"rollingUpdate": {"partition": 2}},
            ),
            [],
        ),
        (
            stateful(
                {0: member(0), 1: member(1), 2: member(2)}, update="r2", updateStrategy={"type": "OnDelete"}
            ),
            [],
        ),
        (stateful({}, 2, ordinals={"start": 5}), ["+5"]),
    ],
)
def test_what_a_stateful_set_does_next(view: StatefulSetView, steps: list[str]) -> None:
    def shown(step: Create | Delete) -> str:
        return f"+{step.ordinal}" if isinstance(step, Create) else f"-{step.pod['metadata']['name'][3:]}"

    assert [shown(step) for step in next_steps(view)] == steps


def test_a_stateful_set_of_two_billion_replicas_is_made_in_parts() -> None:
    view = stateful({}, 2**31 - 1, podManagementPolicy="Parallel")
    assert len(next_steps(view)) == MOST_STEPS


# DaemonSets


def daemon(**spec: Any) -> Daemon:
    return Daemon({"spec": {"template": {"spec": spec}}})


def node(name: str, *taints: tuple[str, str], ready: str = "True", **labels: str) -> Json:
    held = [{"key": key, "effect": effect} for key, effect in taints]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": held},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("spec", "where", "fits"),
    [
        ({}, node("n"), (True, True)),
        ({}, node("n", ("x", "NoSchedule")), (False, True)),
        ({}, node("n", ("x", "NoExecute")), (False, False)),
        ({}, node("n", ("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
        ({}, node("n", ("node.kubernetes.io/unreachable", "NoExecute")), (True, True)),
        ({"tolerations": [{"operator": "Exists"}]}, node("n", ("x", "NoExecute")), (True, True)),
        ({"nodeSelector": {"a": "b"}}, node("n"), (False, False)),
        ({"nodeSelector": {"a": "b"}}, node("n", a="b"), (True, True)),
        ({"nodeName": "other"}, node("n"), (False, False)),
    ],
)
def test_which_nodes_a_daemon_fits(spec: Json, where: Json, fits: tuple[bool, bool]) -> None:
    assert daemon(**spec).fits(where) == fits


def fleet(on: dict[str, list[Json]], nodes: list[Json] | None = None, **rolling: Any) -> DaemonView:
    """A DaemonSet whose present template is `new`."""
    obj = {"metadata": {"name": "ds"}, "spec": {"updateStrategy": {"rollingUpdate": rolling}}}
    return DaemonView(obj, daemon(), nodes or [node(name) for name in on], on, "new", 0.0)


def runner(name: str, hash_: str = "new", second: int = 0, **about: Any) -> Json:
    made = pod(
        name,
        labels={"controller-revision-hash": hash_},
        creationTimestamp=f"2026-01-01T00:00:{second:02}Z",
        **about,
    )
    made["spec"]["nodeName"] = "somewhere"
    return made


def names(pods: list[Json]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


def test_every_node_gets_one_daemon_and_no_more() -> None:
    unplaced = pod("unplaced")
    on = {
        "has": [runner("a")],
        "two": [runner("c", second=9), runner("b")],
        "failed": [runner("d", phase="Failed")],
        "tainted": [runner("e")],
        "gone": [runner("f"), unplaced],
        "leaving": [runner("g", deleting=True)],
        "done": [runner("h", phase="Succeeded")],
    }
    tainted = node("tainted", ("x", "NoExecute"))
    nodes = [node("has"), node("two"), node("failed"), tainted, node("leaving"), node("new"), node("done")]
    todo = plan(fleet(on, nodes))
    assert todo.create == ["new"]
    assert names(todo.delete) == ["c", "d", "e", "h", "unplaced"]
    assert names(plan(fleet(on, nodes), held_back={"failed"}).delete) == ["c", "e", "h", "unplaced"]


@pytest.mark.parametrize(
    ("pods", "going", "create"),
    [
        ([runner("o", "old"), runner("n")], ["o"], []),
        ([runner("o", "old"), runner("n", ready=False)], [], []),
        ([runner("o", "old", ready=False), runner("n", ready=False)], ["o"], []),
        ([runner("n", second=2), runner("n2", second=3)], ["n2"], []),
        ([runner("o", "old", deleting=True)], [], ["x"]),
    ],
)
def test_a_node_has_two_daemons_only_while_the_newer_one_starts(
    pods: list[Json], going: list[str], create: list[str]
) -> None:
    todo = plan(fleet({"x": pods}, maxSurge=1, maxUnavailable=0))
    assert (names(todo.delete), todo.create) == (going, create)


def test_only_so_many_daemons_are_renewed_at_a_time() -> None:
    on = {f"n{number}": [runner(f"o{number}", "old")] for number in range(4)}
    on["sick"] = [runner("sick", "old", ready=False)]
    assert names(updates(fleet(on, maxUnavailable=2)).delete) == ["sick", "o0"]
    assert names(updates(fleet(on, maxUnavailable="60%")).delete) == ["sick", "o0", "o1"]
    starting = {**on, "n0": [runner("new", ready=False)]}
    assert names(updates(fleet(starting, maxUnavailable=2)).delete) == ["sick"]
    on_delete = fleet(on)
    on_delete.obj["spec"]["updateStrategy"]["type"] = "OnDelete"
    assert updates(on_delete) == DaemonSetPlan()


def test_surging_daemons_come_before_the_old_ones_go() -> None:
    on = {f"n{number}": [runner(f"o{number}", "old")] for number in range(4)}
    assert updates(fleet(on, maxSurge=2, maxUnavailable=0)) == DaemonSetPlan(create=["n0", "n1"])
    on["n0"].append(runner("fresh", ready=False))
    assert updates(fleet(on, maxSurge=2, maxUnavailable=0)) == DaemonSetPlan(create=["n1"])
    on["n1"].append(runner("available"))
    todo = updates(fleet(on, maxSurge=2, maxUnavailable=0))
    assert (todo.create, names(todo.delete)) == (["n2"], ["o1"])
    on["n3"] = [runner("o3", "old", ready=False)]
    assert updates(fleet(on, maxSurge=1, maxUnavailable=0)).create == ["n3"]


def test_a_daemon_that_fails_again_stays_longer_each_time() -> None:
    backoff_ = FailureBackoff()
    pauses = []
    for now in (0.0, 2.0, 5.0, 10.0):
        backoff_.failed("x", now)
        pauses.append(backoff_.left("x", now))
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert backoff_.left("other", 10.0) == 0.0
    backoff_.failed("x", 5000.0)
    assert backoff_.left("x", 5000.0) == 1.0


def test_a_daemons_pod_is_pinned_and_tolerates_what_daemons_do() -> None:
    other: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    }
    pinned = affinity_for({"affinity": other}, "n")["nodeAffinity"]
    assert pinned["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    }
    assert len(tolerations_of({})) == 6
    assert len(tolerations_of({"hostNetwork": True})) == 7


@pytest.mark.parametrize(
    ("policy", "condemned", "held", "wanted"),
    [
        ("Retain/Retain", False, [], None),
        ("Retain/Retain", True, ["set"], []),
        ("Delete/Retain", False, [], ["set"]),
        ("Delete/Retain", True, ["set"], None),
        ("Retain/Delete", False, [], None),
        ("Retain/Delete", True, [], ["pod"]),
        ("Delete/Delete", False, [], ["set"]),
        ("Delete/Delete", True, ["set"], ["pod"]),
        ("Delete/Delete", False, ["pod"], ["set"]),
        ("Delete/Delete", False, ["earlier"], None),
        ("Delete/Delete", False, ["foreign"], None),
        ("Delete/Delete", False, ["foreign", "set"], ["foreign"]),
    ],
)
def test_whom_a_claim_goes_with(
    policy: str, condemned: bool, held: list[str], wanted: list[str] | None
) -> None:
    deleted, scaled = policy.split("/")
    obj: Json = {
        "metadata": {"name": "db", "uid": "set"},
        "spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled}},
    }
    replica: Json = {"metadata": {"name": "db-0", "uid": "pod"}}
    owners = {
        "set": controller_reference(STATEFUL_SETS, obj),
        "pod": controller_reference(PODS, replica),
        "earlier": controller_reference(PODS, {"metadata": {"name": "db-0", "uid": "earlier"}}),
        "foreign": controller_reference(PODS, {"metadata": {"name": "other", "uid": "foreign"}}),
    }
    claim: Json = {"metadata": {"name": "data-db-0", "ownerReferences": [owners[one] for one in held]}}
    found = claim_owners(obj, replica, claim, condemned=condemned)
    assert (None if found is None else [one["uid"] for one in found]) == wanted


# Budgets


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "asked"),
    [
        ({"minAvailable": 2}, 3, 9, Expectation(3, 2)),
        ({"minAvailable": "50%"}, 3, 9, Expectation(9, 5)),
        ({"maxUnavailable": 2}, 3, 9, Expectation(9, 7)),
        ({"maxUnavailable": "10%"}, 3, 9, Expectation(9, 8)),
        ({"maxUnavailable": 20}, 3, 9, Expectation(9, 0)),
    ],
)
def test_what_a_budget_asks_for(spec: Json, pods: int, scale: int, asked: Expectation) -> None:
    assert expectation({"spec": spec}, [pod(str(number)) for number in range(pods)], {"u": scale}) == asked


def test_pods_that_are_about_to_go_are_not_healthy() -> None:
    budget = {
        "metadata": {"name": "b"},
        "spec": {},
        "status": {"disruptedPods": {"a": "1970-01-01T00:01:00Z"}},
    }
    pods = [pod("a"), pod("b"), pod("c", deleting=True), pod("d", ready=False)]
    disrupted, left = unconfirmed(budget, pods, 100.0)
    assert (list(disrupted), left) == (["a"], 80.0)
    assert budget_status(budget, pods, Expectation(4, 0), disrupted, STAMP)["currentHealthy"] == 1
    assert unconfirmed(budget, pods, 500.0) == ({}, None)
    assert budget_status(budget, pods, Expectation(0, 0), {}, STAMP)["disruptionsAllowed"] == 0


# Nodes


@pytest.mark.parametrize(
    ("held", "ready", "evict", "wanted"),
    [
        ([], "True", False, None),
        ([("x", "NoExecute")], "True", False, None),
        ([], "Unknown", False, ["unreachable NoSchedule"]),
        ([], "Unknown", True, ["unreachable NoSchedule", "unreachable NoExecute"]),
        ([("node.kubernetes.io/not-ready", "NoSchedule")], "True", False, []),
        (
            [("node.kubernetes.io/not-ready", "NoSchedule"), ("node.kubernetes.io/not-ready", "NoExecute")],
            "Unknown",
            True,
            ["unreachable NoSchedule", "unreachable NoExecute"],
        ),
        (
            [("node.kubernetes.io/not-ready", "NoExecute")],
            "False",
            False,
            ["not-ready NoExecute", "not-ready NoSchedule"],
        ),
    ],
)
def test_which_taints_a_nodes_state_asks_for(
    held: list[tuple[str, str]], ready: str, evict: bool, wanted: list[str] | None
) -> None:
    found = taints_for(node("n", *held, ready=ready), STAMP, evict=evict)
    shown = None if found is None else [f"{one['key'].rpartition('/')[2]} {one['effect']}" for one in found]
    assert shown == wanted


@pytest.mark.parametrize(
    ("well", "sick", "others", "rate"),
    [(3, 1, 0, 0.1), (0, 3, 0, 0.0), (0, 3, 2, 0.1), (1, 3, 0, 0.0), (20, 40, 0, 0.01), (30, 30, 0, 0.1)],
)
def test_how_fast_a_zone_loses_its_pods(well: int, sick: int, others: int, rate: float) -> None:
    zone = {"topology.kubernetes.io/zone": "z"}
    nodes = [node("n", ready="True", **zone)] * well + [node("n", ready="False", **zone)] * sick
    nodes += [node("n", ready="True")] * others
    assert ZoneHealth(nodes).eviction_rate("z") == rate


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0.0),
        ([{"key": "a", "operator": "Exists"}], None),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": 60}], 60.0),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": -1}], 0.0),
        ([{"operator": "Exists", "tolerationSeconds": 60}, {"key": "a", "operator": "Exists"}], 60.0),
        ([{"key": "b", "operator": "Exists"}], 0.0),
    ],
)
def test_how_long_a_pod_may_stay(tolerations: list[Json], seconds: float | None) -> None:
    taints = [{"key": "a", "effect": "NoExecute"}, {"key": "soft", "effect": "NoSchedule"}]
    assert min_toleration_seconds(taints, {"metadata": {}, "spec": {"tolerations": tolerations}}) == seconds
    assert min_toleration_seconds(taints[1:], {"metadata": {}, "spec": {}}) is None


def test_pods_that_nobody_else_removes() -> None:
    on_gone = {**pod("a"), "spec": {"nodeName": "gone"}}
    never_placed = pod("b", deleting=True)
    over = [
        pod(f"f{number}", "Failed", creationTimestamp=f"2026-01-01T00:00:0{number}Z") for number in range(3)
    ]
    assert pods_to_remove([on_gone, never_placed, *over, pod("ok")], {"gone"}, 1) == [
        "d/a",
        "d/b",
        "d/f0",
        "d/f1",
    ]


# Ownership


@pytest.mark.parametrize(
    ("owners", "gone", "waiting", "dependents", "fate"),
    [
        ("ab", "", "", False, CollectorAction.STAY),
        ("ab", "a", "", False, CollectorAction.DISOWN),
        ("ab", "", "b", False, CollectorAction.DISOWN),
        ("ab", "ab", "", True, CollectorAction.DELETE),
        ("ab", "a", "b", True, CollectorAction.DELETE_IN_FOREGROUND),
        ("a", "", "a", False, CollectorAction.DELETE),
    ],
)
def test_what_becomes_of_an_object(
    owners: str, gone: str, waiting: str, dependents: bool, fate: CollectorAction
) -> None:
    obj = {"metadata": {"ownerReferences": [{"uid": uid} for uid in owners]}}
    assert action_for(obj, set(gone), set(waiting), dependents) is fate


def test_only_those_who_say_so_hold_their_owner_up() -> None:
    owner = {"metadata": {"uid": "o"}}
    for block, expected in ((True, True), (False, False)):
        obj = {"metadata": {"ownerReferences": [{"uid": "o", "blockOwnerDeletion": block}]}}
        assert blocks_owner(obj, owner) is expected


# Volumes


def claim(**about: Any) -> Json:
    spec = {"accessModes": ["RWO"], "resources": {"requests": {"storage": "1Gi"}}, **about.pop("spec", {})}
    return {"metadata": {"name": "c", "namespace": "d", "uid": "u", **about}, "spec": spec, "status": {}}


def volume(name: str = "v", size: str = "1Gi", ref: Json | None = None, **spec: Any) -> Json:
    held = {"claimRef": ref} if ref else {}
    return {
        "metadata": {"name": name, "annotations": {}},
        "spec": {"capacity": {"storage": size}, "accessModes": ["RWO", "ROX"], **held, **spec},
        "status": {"phase": "Available"},
    }


MINE = {"namespace": "d", "name": "c", "uid": "u"}
YOURS = {"namespace": "d", "name": "x", "uid": "w"}
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


@pytest.mark.parametrize(
    ("ref", "other", "best"),
    [
        (None, volume("small", "500Mi"), "v"),
        (None, volume("same", "1Gi"), "same"),
        (None, volume("smaller", "1000M", storageClassName="x"), "v"),
        (None, volume("block", "1Gi", volumeMode="Block"), "v"),
        (YOURS, volume("big", "2Gi"), "big"),
        (MINE, volume("small", "1Gi"), "v"),
        ({"namespace": "d", "name": "c"}, volume("a"), "v"),
    ],
)
def test_which_volume_a_claim_gets(ref: Json | None, other: Json, best: str) -> None:
    found = best_volume(claim(), [volume("v", "1536Mi", ref), other], only_reserved=False)
    assert found is not None
    assert found["metadata"]["name"] == best


def test_a_claim_that_waits_takes_only_what_is_reserved_for_it() -> None:
    assert best_volume(claim(), [volume()], only_reserved=True) is None
    assert best_volume(claim(), [volume(ref=MINE)], only_reserved=True) is not None


@pytest.mark.parametrize(
    ("it", "named", "phase", "binds", "reason"),
    [
        (claim(), None, "Pending", False, "FailedBinding"),
        (claim(spec={"volumeName": "v"}), None, "Pending", False, None),
        (claim(spec={"volumeName": "v"}), volume(), "", True, None),
        (claim(spec={"volumeName": "v"}), volume(size="1Mi"), "Pending", False, "VolumeMismatch"),
        (claim(spec={"volumeName": "v"}), volume(ref=YOURS), "Pending", False, "FailedBinding"),
        (claim(spec={"volumeName": "v"}, **BOUND), volume(ref=MINE), "", True, None),
        (claim(spec={"volumeName": "v"}, **BOUND), None, "Lost", False, "ClaimLost"),
        (claim(**BOUND), None, "Lost", False, "ClaimLost"),
        (claim(spec={"volumeName": "v"}, **BOUND), volume(ref=YOURS), "Lost", False, "ClaimMisbound"),
    ],
)
def test_what_is_next_for_a_claim(
    it: Json, named: Json | None, phase: str, binds: bool, reason: str | None
) -> None:
    step = claim_step(it, None, named, [])
    assert (step.phase, step.volume is not None, step.event and step.event[1]) == (phase, binds, reason)


@pytest.mark.parametrize(
    ("ref", "owner", "step"),
    [
        (None, None, VolumeStep.FREE),
        ({"namespace": "d", "name": "c"}, None, VolumeStep.FREE),
        (MINE, None, VolumeStep.RELEASE),
        (YOURS, claim(), VolumeStep.RELEASE),
        (MINE, claim(), VolumeStep.WAIT),
        (MINE, claim(spec={"volumeName": "v"}), VolumeStep.BOUND),
        (MINE, claim(spec={"volumeName": "other"}), VolumeStep.UNBIND),
    ],
)
def test_what_is_next_for_a_volume(ref: Json | None, owner: Json | None, step: VolumeStep) -> None:
    assert volume_step(volume(ref=ref), owner) is step


@pytest.mark.parametrize(
    ("finalizers", "policy"),
    [([], "Background"), (["foregroundDeletion"], "Foreground"), (["orphan", "example.com/x"], "Orphan")],
)
def test_what_is_collected_goes_as_it_was_asked_to_go(finalizers: list[str], policy: str) -> None:
    assert propagation_for({"metadata": {"name": "j", "finalizers": finalizers}}).propagation == policy
