"""VolumeRestrictions: disks that one pod of a node can use, claims that one pod can use."""

import pytest

from scheduler.plugins.answers import PASSES, verdicts
from scheduler.plugins.volume_objects import (
    claim,
    claimed,
    ebs,
    gce,
    iscsi,
    rbd,
    using,
    volume,
    with_volumes,
)
from stowplan.api.meta import Object
from stowplan.api.pod import Volume
from stowplan.scheduler.framework.extension_points import run_post_filters
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import unresolvable, unschedulable
from stowplan.scheduler.table.volumesinuse import conflict
from stowplan.testing import Cluster, PodBuilder, cluster, node, pod

TAKEN = unschedulable("node(s) had no available disk").by("VolumeRestrictions")
IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
).by("VolumeRestrictions")
FOR_ONE = ("ReadWriteOncePod",)

DISKS = [
    (gce("d"), gce("d"), True),
    (gce("d", read_only=True), gce("d"), True),
    (gce("d", read_only=True), gce("d", read_only=True), False),
    (gce("d"), gce("e"), False),
    (ebs("d"), ebs("d"), True),
    (ebs("d"), ebs("e"), False),
    (ebs("d"), gce("d"), False),
    (iscsi("q"), iscsi("q"), True),
    (iscsi("q", lun=1), iscsi("q", lun=2), True),
    (iscsi("q", read_only=True), iscsi("q", read_only=True), False),
    (iscsi("q"), iscsi("r"), False),
    (rbd("i", "a", "b"), rbd("i", "b", "c"), True),
    (rbd("i", "a", "b", read_only=True), rbd("i", "b", "c"), True),
    (rbd("i", "a", read_only=True), rbd("i", "a", read_only=True), False),
    (rbd("i", "a"), rbd("i", "c"), False),
    (rbd("i", "a"), rbd("j", "a"), False),
    (rbd("i", "a"), rbd("i", "a", pool="other"), False),
]


@pytest.mark.parametrize(("one", "other", "clash"), DISKS)
def test_a_disk_is_not_shared_on_a_node_unless_all_only_read(one: Volume, other: Volume, clash: bool) -> None:
    there = with_volumes(pod("there").namespace("other"), one).on("a")
    world = cluster(nodes=[node("a"), node("b")], pods=[there])
    assert verdicts(world, with_volumes(pod("p"), other)) == {"a": TAKEN if clash else PASSES, "b": PASSES}
    assert conflict(one, other) is conflict(other, one) is clash


def test_a_disk_is_free_again_once_its_last_user_is_gone() -> None:
    users = [with_volumes(pod(name), gce("d", read_only=True)).on("a") for name in ("one", "two")]
    wanting = with_volumes(pod("p"), gce("d"))
    world = cluster(nodes=[node("a")], pods=users)
    assert verdicts(world, wanting) == {"a": TAKEN}
    world.remove(users[0])
    assert verdicts(world, wanting) == {"a": TAKEN}
    world.remove(users[1])
    assert verdicts(world, wanting) == {"a": PASSES}


def test_a_claim_for_one_pod_is_used_once_in_the_whole_cluster() -> None:
    world = claims_for_one(using("there", "c").on("a"))
    assert verdicts(world, using("p", "c")) == {"a": IN_USE, "b": IN_USE}
    assert verdicts(world, using("p", "c").namespace("other")) == {"a": PASSES, "b": PASSES}
    world.remove(using("there", "c").on("a"))
    assert verdicts(world, using("p", "c")) == {"a": PASSES, "b": PASSES}
    world.add(using("next", "c").on("b"))
    assert verdicts(world, using("p", "c")) == {"a": IN_USE, "b": IN_USE}


def test_disks_and_claims_for_one_pod_are_looked_at_together() -> None:
    world = claims_for_one(with_volumes(pod("other"), ebs("d")).on("b"))
    world.add(node("c"))
    wanting = with_volumes(pod("p"), claimed("c"), ebs("d"))
    for _ in range(2):
        assert verdicts(world, wanting) == {"a": PASSES, "b": TAKEN, "c": PASSES}
        world.add(using("there", "c").on("a"))
        assert verdicts(world, wanting) == {"a": IN_USE, "b": TAKEN, "c": IN_USE}
        world.remove(using("there", "c").on("a"))


def test_pods_without_disks_whose_claims_are_free_are_skipped() -> None:
    world = claims_for_one()
    assert "VolumeRestrictions" in world.evaluate(using("p", "c")).cycle.skipped
    assert "VolumeRestrictions" not in world.evaluate(with_volumes(pod("p"), ebs("d"))).cycle.skipped


def test_a_pod_whose_claim_does_not_exist_goes_nowhere() -> None:
    world = claims_for_one()
    said = world.evaluate(using("p", "c", "lost")).rejected_outright
    assert said == unresolvable('persistentvolumeclaim "lost" not found').by("VolumeRestrictions")


def test_a_more_important_pod_takes_the_claim_from_its_user() -> None:
    world = claims_for_one(using("there", "c").on("a"), pod("bystander").on("b"))
    evaluation = world.evaluate(using("p", "c").priority(10))
    [framework] = world.frameworks.values()
    result = run_post_filters(
        [framework.plugins["DefaultPreemption"]], evaluation.cycle, evaluation.cycle.pod
    )
    assert result.nominated_node == "a"
    assert [victim.key for victim in result.victims] == ["default/there"]


def test_only_where_the_user_of_the_claim_is_taken_away_the_pod_fits() -> None:
    world = claims_for_one(using("there", "c").on("a"), pod("bystander").on("b"))
    assert tried_without(world, using("p", "c"), "a") == [IN_USE, None]
    assert tried_without(world, using("p", "c"), "b") == [IN_USE, IN_USE]


def test_pods_imagined_away_are_known_by_the_names_of_their_claims_alone() -> None:
    """As in kube-scheduler, a claim of the same name in another namespace is taken for the same."""
    stranger = using("stranger", "c").namespace("other").on("b")
    world = claims_for_one(using("there", "c").on("a"), stranger)
    assert tried_without(world, using("p", "c"), "b") == [IN_USE, None]


def test_a_promised_pod_with_the_claim_stands_in_the_way_on_its_node_only() -> None:
    world = claims_for_one()
    [framework] = world.frameworks.values()
    promised = world.table.info(using("first", "c").priority(5).obj())
    row = world.table.row_of("a")
    assert row is not None
    wanting = with_volumes(pod("p"), claimed("c"), ebs("d"))
    evaluation = framework.evaluate(world.table.info(wanting.obj()), {row: [promised]})
    assert {world.table.name_of(r): evaluation.status(r) for r in range(2)} == {"a": IN_USE, "b": PASSES}


def claims_for_one(*pods: PodBuilder) -> Cluster:
    objects: list[Object] = [volume("v"), claim("c", "v", modes=FOR_ONE)]
    objects += [volume("w"), claim("c", "w", modes=FOR_ONE, namespace="other")]
    return cluster(nodes=[node("a"), node("b")], pods=pods, objects=objects)


def tried_without(world: Cluster, wanting: PodBuilder, name: str) -> list[object]:
    """Verdicts on a node as its pods are removed one by one."""
    [framework] = world.frameworks.values()
    assert isinstance(framework, Framework)
    evaluation = world.evaluate(wanting)
    row = world.table.row_of(name)
    assert row is not None
    with evaluation.simulations() as simulations, simulations.row(row) as simulation:
        said: list[object] = [simulation.verdict()]
        for info in list(world.table.pods_on[row].values()):
            simulation.remove_pod(info)
            said.append(simulation.verdict())
    return said
