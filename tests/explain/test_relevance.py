"""What is in the way of the nodes that a pod means, and which changes may be offered."""

from typing import Any

import pytest

from stowplan.api.admission import LimitRange, LimitRangeItem, LimitRangeSpec
from stowplan.api.decode import convert_any
from stowplan.api.meta import ObjectMeta
from stowplan.api.workloads import PriorityClass
from stowplan.config.build import default_profile
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.changes import BUDGET
from stowplan.explain.explainers.pod import Explainer
from stowplan.explain.layers.wider import NOTHING_KNOWN, Wider
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable, load

Json = dict[str, Any]
INFER: Json = {"key": "dedicated", "value": "infer", "effect": "NoSchedule"}
TOLERATES: Json = {"key": "dedicated", "operator": "Exists"}


def node(name: str, pool: str, *taints: Json, cpu: str = "8", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": pool}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def pool(name: str, count: int, *taints: Json, cpu: str = "8") -> list[Json]:
    return [node(f"{name}-{number}", name, *taints, cpu=cpu) for number in range(count)]


def pod(name: str, cpu: str = "1", on: str = "", owner: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": name,
            "labels": {"app": name},
            **({"ownerReferences": [owner]} if owner is not None else {}),
        },
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
    }


def of(kind: str, name: str) -> Json:
    api = "apps/v1" if kind != "Job" else "batch/v1"
    return {"apiVersion": api, "kind": kind, "name": name, "uid": name, "controller": True}


CLUSTER = [*pool("general", 6), *pool("infer", 3, INFER, cpu="16")]


def explained(wanted: Json, *objects: Json, wider: Wider = NOTHING_KNOWN, **engine: Any) -> PodDocument:
    table = ClusterTable()
    everything = [convert_any(one) for one in (*CLUSTER, *objects)]
    load(table, [one for one in everything if one is not None])
    framework = Framework(default_profile(), table, in_tree_registry(), **engine)
    return Explainer(framework, "a test", wider=wider).explain(table.info(convert_any(wanted)))  # type: ignore[arg-type]


def filled(name: str, count: int, cpu: str, owner: Json | None = None) -> list[Json]:
    return [pod(f"{name}-{number}", cpu, f"{name}-{number}", owner) for number in range(count)]


def texts(found: PodDocument) -> list[str]:
    return [change.text for change in found.changes]


# The headline


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodeSelector": {"pool": "infer"}}, "taint dedicated=infer:NoSchedule on 3 nodes of pool infer"),
        (
            {"nodeSelector": {"pool": "infre"}},
            "no node has pool=infre; 3 have pool=infer; "
            "taint dedicated=infer:NoSchedule on 3 nodes of pool infer",
        ),
        (
            {"nodeSelector": {"node-pool": "general"}},
            "no node has node-pool=general; 6 have pool=general",
        ),
        (
            {"nodeSelector": {"pool": "infer"}, "cpu": "20"},
            "taint dedicated=infer:NoSchedule and cpu 20 (16 at most) on 3 nodes of pool infer",
        ),
        (
            {"nodeSelector": {"pool": "infer"}, "tolerations": [TOLERATES], "cpu": "20"},
            "larger than any node (cpu 20, largest 16)",
        ),
        ({"cpu": "20"}, "larger than any node (cpu 20, largest 16)"),
        ({"cpu": "12"}, "cpu 12 (8 at most) on 6 nodes of pool general"),
    ],
)
def test_the_headline_names_what_is_in_the_way_of_the_nodes_that_a_pod_means(spec: Json, says: str) -> None:
    assert explained(pod("web", **spec)).headline == f"shop/web is pending: {says}"


def test_a_node_that_is_not_well_is_no_matter_of_tolerations() -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ill = node("ill", "sick", unreachable)
    found = explained(pod("web", nodeSelector={"pool": "sick"}), ill)
    assert found.headline.endswith("1 node of pool sick (ill) is not ready (its kubelet does not report)")
    assert found.remedy.startswith("recover node ill")
    assert not [text for text in texts(found) if text.startswith("tolerate node.kubernetes.io")]
    cordoned = node("shut", "shut", cordon, unschedulable=True)
    found = explained(pod("web", nodeSelector={"kubernetes.io/hostname": "shut"}), cordoned)
    assert found.headline == "shop/web is pending: shut is cordoned"
    assert texts(found)[0] == "uncordon shut"


def test_nodes_are_grouped_by_the_one_thing_in_their_way() -> None:
    busy = filled("infer", 3, "10")
    found = explained(pod("web", "8", nodeSelector={"pool": "infer"}, tolerations=[TOLERATES]), *busy)
    [meant] = [group for group in found.groups_of_nodes if group.meant]
    assert (meant.name, meant.nodes, meant.text) == ("3 nodes of pool infer", 3, "2 cpu short")
    [other] = [group for group in found.groups_of_nodes if not group.meant]
    assert (other.name, other.text) == ("6 nodes of pool general", "no pool=infer")


# Two things at once


def test_two_changes_are_offered_where_no_single_one_helps() -> None:
    found = explained(pod("web", "20", nodeSelector={"pool": "infer"}))
    assert texts(found)[0] == "tolerate dedicated=infer:NoSchedule, and request 16 cpu (now 20)"
    assert found.changes[0].patch is not None
    assert found.changes[0].patch["spec"].keys() == {"tolerations", "containers"}
    assert found.changes[0].node.startswith("infer-")


def test_what_is_in_the_way_after_a_correction_is_said_too() -> None:
    found = explained(pod("web", nodeSelector={"pool": "infre"}))
    assert "nodeSelector pool=infer (now pool=infre)" in texts(found)[0]
    assert "tolerate dedicated=infer:NoSchedule" in texts(found)[0]
    assert found.cause.endswith("taint dedicated=infer:NoSchedule on 3 nodes of pool infer")


# What may be offered


def test_what_a_pod_wants_is_kept_before_it_is_dropped() -> None:
    found = explained(pod("web", nodeSelector={"pool": "infer"}))
    assert texts(found) == ["tolerate dedicated=infer:NoSchedule"]


def test_only_a_pod_that_nobody_makes_again_may_end() -> None:
    wanted = pod("web", "8", nodeSelector={"pool": "infer"}, tolerations=[TOLERATES])
    alone = explained(wanted, *filled("infer", 3, "10"))
    assert [text for text in texts(alone) if text.endswith(" ends")] == ["shop/infer-0 ends"]
    for kind in ("ReplicaSet", "Job"):
        owned = explained(wanted, *filled("infer", 3, "10", of(kind, "base")))
        assert not [text for text in texts(owned) if text.endswith(" ends")]


def test_a_pod_whose_budget_forbids_it_may_not_end() -> None:
    wanted = pod("web", "8", nodeSelector={"pool": "infer"}, tolerations=[TOLERATES])
    guarded = filled("infer", 3, "10")
    for one in guarded:
        one["metadata"]["labels"] = {"app": "core"}
    budget: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "core", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "core"}}, "minAvailable": 3},
        "status": {"disruptionsAllowed": 0},
    }
    assert "shop/infer-0 ends" in texts(explained(wanted, *guarded))
    assert not [text for text in texts(explained(wanted, *guarded, budget)) if text.endswith(" ends")]


def test_a_higher_priority_is_offered_as_a_class_and_not_over_siblings() -> None:
    classes = (
        PriorityClass(metadata=ObjectMeta(name="system-node-critical"), value=2_000_001_000),
        PriorityClass(metadata=ObjectMeta(name="critical"), value=5000),
        PriorityClass(metadata=ObjectMeta(name="patient"), value=9000, preemption_policy="Never"),
    )
    wider = Wider(priority_classes=classes)
    mine = of("ReplicaSet", "web")
    wanted = pod("web", "8", owner=mine, nodeSelector={"pool": "infer"}, tolerations=[TOLERATES])
    found = explained(wanted, *filled("infer", 3, "10", of("ReplicaSet", "base")), wider=wider)
    [offered] = [change for change in found.changes if change.kind == "priority"]
    assert offered.text == "priorityClassName critical (5000, now 0)"
    assert offered.patch is not None
    assert offered.patch["spec"]["priority"] is None
    found = explained(wanted, *filled("infer", 3, "10", mine), wider=wider)
    assert not [change for change in found.changes if change.kind == "priority"]


def test_a_request_that_a_limit_range_forbids_is_not_offered() -> None:
    least = LimitRangeItem(type="Container", min={"cpu": "7"})
    limits = LimitRange(metadata=ObjectMeta(name="l", namespace="shop"), spec=LimitRangeSpec(limits=(least,)))
    wanted = pod("web", "8", nodeSelector={"pool": "infer"}, tolerations=[TOLERATES])
    busy = filled("infer", 3, "10")
    assert texts(explained(wanted, *busy))[0] == "request 6 cpu (now 8)"
    found = explained(wanted, *busy, wider=Wider(limit_ranges=(limits,)))
    assert not [text for text in texts(found) if text.startswith("request")]
    found = explained(wanted, *busy, wider=Wider(unread="reading limitranges is not allowed"))
    assert found.untried == ("requests against LimitRanges: reading limitranges is not allowed",)


def test_a_new_node_has_the_daemons_that_every_node_has() -> None:
    """A pod that needs the whole node does not fit on one more like it."""
    wanted = pod("web", "16", nodeSelector={"pool": "infer"}, tolerations=[TOLERATES])
    daemons = filled("infer", 3, "1", of("DaemonSet", "agent"))
    assert not [change for change in explained(wanted, *daemons).changes if change.kind == "addNode"]
    others = filled("infer", 3, "1", of("ReplicaSet", "base"))
    assert [change for change in explained(wanted, *others).changes if change.kind == "addNode"]


def test_overhead_and_init_containers_count_in_the_request_that_is_offered() -> None:
    heavy = pod("web", "15", nodeSelector={"pool": "infer"}, tolerations=[TOLERATES], overhead={"cpu": "2"})
    assert texts(explained(heavy))[0] == "request 14 cpu (now 15)"
    warm = pod("web", "1", nodeSelector={"pool": "general"})
    warm["spec"]["initContainers"] = [
        {"name": "warm", "image": "app", "resources": {"requests": {"cpu": "12"}}}
    ]
    found = explained(warm)
    assert found.headline.endswith(
        "cpu 12 (8 at most; init container warm requests it) on 6 nodes of pool general"
    )
    assert found.changes[0].patch == {
        "spec": {"initContainers": [{"name": "warm", "resources": {"requests": {"cpu": "8"}}}]}
    }


def test_what_there_was_no_time_for_is_said() -> None:
    now = 0.0

    def slow() -> float:
        nonlocal now
        now += 2 * BUDGET
        return now

    found = explained(pod("web", nodeSelector={"pool": "infer"}), timer=slow)
    assert found.changes == ()
    assert f"tolerate dedicated=infer:NoSchedule: no time left of {BUDGET:g} s" in found.untried
