"""NodeVolumeLimits: how many volumes CSI drivers attach to a node."""

import pytest

from scheduler.plugins.answers import PASSES, gated_cluster, verdicts
from scheduler.plugins.volume_objects import (
    DRIVER,
    OTHER,
    attachment,
    azure,
    claim,
    csi_driver,
    csi_node,
    csi_node_of,
    csi_volume,
    ebs,
    gce,
    own,
    storage_class,
    using,
    volume,
    with_volumes,
)
from stowplan.api.meta import Object
from stowplan.api.pod import AWSElasticBlockStore, GCEPersistentDisk, Volume
from stowplan.scheduler.framework.events import Hint, HintError
from stowplan.scheduler.framework.status import PluginError, Status, unresolvable, unschedulable
from stowplan.scheduler.plugins.nodevolumelimits.csi import after_csi_node_update, after_detachment
from stowplan.testing import Cluster, PodBuilder, cluster, node, pod

TOO_MANY = unschedulable("node(s) exceed max volume count").by("NodeVolumeLimits")
EBS_DRIVER, GCE_DRIVER = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


def bound(*names: str, driver: str = DRIVER) -> list[Object]:
    """Claims with a volume each."""
    return [obj for name in names for obj in (csi_volume(f"pv-{name}", driver), claim(name, f"pv-{name}"))]


def limited(limit: int, *pods: PodBuilder, objects: list[Object] | None = None) -> Cluster:
    """Node `a` with a limit, node `free` without one."""
    nodes = [node("a"), node("free")]
    return cluster(nodes=nodes, pods=pods, objects=[csi_node("a", disk=limit), *(objects or [])])


def on_a(world: Cluster, wanting: PodBuilder) -> Status:
    said = verdicts(world, wanting)
    assert said["free"] == PASSES
    return said["a"]


@pytest.mark.parametrize(
    ("limit", "wanted", "expected"),
    [
        (2, ["x"], PASSES),
        (1, ["x"], TOO_MANY),
        (1, ["c1"], PASSES),
        (2, ["c1", "x"], PASSES),
        (2, ["x", "y"], TOO_MANY),
        (3, ["x", "y"], PASSES),
        (2, ["x", "x"], PASSES),
        (0, ["c1"], PASSES),
        (0, ["other"], PASSES),
    ],
)
def test_new_volumes_and_those_of_pods_on_the_node_count_once_each(
    limit: int, wanted: list[str], expected: Status
) -> None:
    objects = [*bound("c1", "x", "y"), *bound("other", driver=OTHER)]
    world = limited(limit, using("there", "c1").on("a"), using("too", "c1").on("a"), objects=objects)
    assert on_a(world, using("p", *wanted)) == expected


def test_claims_of_one_volume_count_as_one() -> None:
    objects: list[Object] = [csi_volume("v1", handle="h"), csi_volume("v2", handle="h")]
    objects += [claim("c1", "v1"), claim("c2", "v2")]
    world = limited(1, using("there", "c1").on("a"), objects=objects)
    assert on_a(world, using("p", "c2")) == PASSES


def test_each_driver_has_a_limit_of_its_own() -> None:
    objects = [*bound("d"), *bound("f", driver=OTHER), csi_node("a", disk=1, file=0)]
    world = cluster(nodes=[node("a")], objects=objects)
    assert verdicts(world, using("p", "d")) == {"a": PASSES}
    assert verdicts(world, using("p", "f")) == {"a": TOO_MANY}
    assert verdicts(world, using("p", "d", "f")) == {"a": TOO_MANY}


def test_attachments_count_beside_what_pods_use_and_not_twice() -> None:
    objects = [*bound("c1", "c2", "x"), attachment("one", "a", "pv-c1"), attachment("same", "a", "pv-c1")]
    objects += [attachment("nobody", "a", None), attachment("unknown", "a", "lost")]
    world = limited(2, using("there", "c1").on("a"), objects=objects)
    assert on_a(world, using("p", "x")) == PASSES
    world.add(attachment("two", "a", "pv-c2"))
    assert on_a(world, using("p", "x")) == TOO_MANY
    world.remove(attachment("two", "a", "pv-c2"))
    assert on_a(world, using("p", "x")) == PASSES


def test_a_volume_that_is_attached_but_used_by_nobody_counts_again_for_its_next_pod() -> None:
    """So it is in kube-scheduler: only what pods on the node use is taken for attached already."""
    world = limited(1, objects=[*bound("c1"), attachment("one", "a", "pv-c1")])
    assert on_a(world, using("p", "c1")) == TOO_MANY


def test_attachments_wait_for_their_node_and_leave_with_it() -> None:
    objects = [*bound("c1", "x"), attachment("one", "a", "pv-c1"), csi_node("a", disk=1)]
    world = cluster(nodes=[node("free")], objects=objects)
    for _ in range(2):
        world.add(node("a"))
        assert on_a(world, using("p", "x")) == TOO_MANY
        world.remove(node("a"))
    world.add(node("b"))
    assert verdicts(world, using("p", "x")) == {"b": PASSES, "free": PASSES}


def test_limits_and_counts_stay_as_the_cluster_outgrows_its_table() -> None:
    world = limited(1, using("there", "c1").on("a"), objects=bound("c1", "x"))
    names = [f"n{number}" for number in range(200)]
    world.add(*(csi_node(name, disk=number % 2) for number, name in enumerate(names)), *map(node, names))
    said = verdicts(world, using("p", "x"))
    assert said["a"] == TOO_MANY
    assert [said[name] for name in names] == [TOO_MANY, PASSES] * 100


def test_limits_and_volumes_are_looked_up_as_they_are_now() -> None:
    world = limited(1, using("there", "c1").on("a"), objects=bound("c1", "x"))
    wanting = using("p", "x")
    assert on_a(world, wanting) == TOO_MANY
    world.add(csi_node("a", disk=2))
    assert on_a(world, wanting) == PASSES
    world.add(csi_node("a", disk=1))
    assert on_a(world, wanting) == TOO_MANY
    world.add(csi_volume("pv-c1", OTHER))
    assert on_a(world, wanting) == PASSES
    world.remove(csi_volume("pv-c1", OTHER))
    assert on_a(world, wanting) == PASSES
    world.add(csi_volume("pv-c1"))
    assert on_a(world, wanting) == TOO_MANY
    world.remove(claim("c1"))
    assert on_a(world, wanting) == PASSES
    world.add(claim("c1", "pv-c1"))
    assert on_a(world, wanting) == TOO_MANY
    world.remove(csi_node("a"))
    assert on_a(world, wanting) == PASSES


def test_a_claim_without_a_volume_counts_for_the_provisioner_of_its_class() -> None:
    objects: list[Object] = [storage_class("k"), storage_class("ebs", "kubernetes.io/aws-ebs")]
    objects += [claim("late", of_class="k"), claim("lost", "nowhere", of_class="k"), claim("plain")]
    world = cluster(
        nodes=[node("a")],
        objects=[*objects, claim("old", of_class="ebs"), csi_node("a", disk=0)],
        config=WITHOUT_BINDING,
    )
    assert verdicts(world, using("p", "late")) == {"a": TOO_MANY}
    assert verdicts(world, using("p", "lost")) == {"a": TOO_MANY}
    assert verdicts(world, using("p", "plain")) == {"a": PASSES}
    assert verdicts(world, using("p", "old")) == {"a": PASSES}
    world.add(csi_node_of("a", EBS_DRIVER, 0))
    assert verdicts(world, using("p", "old")) == {"a": TOO_MANY}


@pytest.mark.parametrize(
    ("inline", "same", "driver"),
    [
        (
            ebs("vol-1"),
            volume("v", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1")),
            EBS_DRIVER,
        ),
        (gce("d"), volume("v", gce_persistent_disk=GCEPersistentDisk(pd_name="d")), GCE_DRIVER),
        (azure("d"), csi_volume("v", "disk.csi.azure.com", "/disks/d"), "disk.csi.azure.com"),
    ],
)
def test_built_in_volumes_belong_to_the_drivers_they_moved_to(
    inline: Volume, same: Object, driver: str
) -> None:
    there = with_volumes(pod("there"), inline).on("a")
    objects = [same, claim("c", "v"), *bound("x", driver=driver)]
    world = cluster(nodes=[node("a")], pods=[there], objects=objects, config=WITHOUT_BINDING)
    assert verdicts(world, using("p", "x")) == {"a": PASSES}
    world.add(csi_node_of("a", driver, 1))
    assert verdicts(world, using("p", "x")) == {"a": TOO_MANY}
    assert verdicts(world, using("p", "c")) == {"a": PASSES}


def test_pods_without_volumes_to_attach_are_skipped() -> None:
    world = limited(0)
    assert "NodeVolumeLimits" in world.evaluate(pod("p")).cycle.skipped
    assert "NodeVolumeLimits" not in world.evaluate(with_volumes(pod("p"), ebs("d"))).cycle.skipped


def test_a_missing_claim_keeps_a_pod_from_every_node() -> None:
    world = cluster(nodes=[node("a"), node("b")], objects=[csi_node("a", disk=1)], config=LIMITS_ALONE)
    text = 'looking up PVC default/lost: persistentvolumeclaim "lost" not found'
    missing = unresolvable(text).by("NodeVolumeLimits")
    assert verdicts(world, using("p", "lost")) == {"a": missing, "b": missing}


def test_a_claim_of_somebody_else_fails_the_attempt_on_the_nodes_that_get_so_far() -> None:
    wanting = with_volumes(pod("p"), own())
    objects: list[Object] = [claim("p-v"), csi_node("a", disk=1)]
    nodes = [node("a"), node("b"), node("c").unschedulable()]
    world = cluster(nodes=nodes, objects=objects, config=WITHOUT_BINDING)
    with pytest.raises(PluginError) as caught:
        world.evaluate(wanting)
    assert caught.value.message == (
        'running "NodeVolumeLimits" filter plugin: '
        "PVC default/p-v was not created for pod default/p (pod is not owner)"
    )
    assert caught.value.nodes == ("a", "b")
    world.add(claim("p-v", owner=wanting))
    assert verdicts(world, wanting)["a"] == PASSES


def test_a_running_pod_whose_claim_is_somebody_elses_fails_attempts_on_its_node() -> None:
    there = with_volumes(pod("there"), own()).on("a")
    world = limited(9, there, objects=[claim("there-v"), *bound("x")])
    with pytest.raises(
        PluginError, match="PVC default/there-v was not created for pod default/there"
    ) as caught:
        world.evaluate(using("p", "x"))
    assert caught.value.nodes == ("a",)
    assert world.evaluate(pod("plain")).feasible_count == 2
    world.add(node("a").unschedulable())
    assert verdicts(world, using("p", "x"))["free"] == PASSES
    world.add(node("a"), csi_node("a", disk=None))
    assert on_a(world, using("p", "x")) == PASSES
    world.add(csi_node("a", disk=9), claim("there-v", owner=there))
    assert on_a(world, using("p", "x")) == PASSES


def test_a_disk_its_driver_cannot_be_told_of_fails_the_attempt_on_nodes_with_drivers() -> None:
    world = limited(1)
    with pytest.raises(PluginError) as caught:
        world.evaluate(with_volumes(pod("p"), azure("d", "Dedicated")))
    text = "converting volume(d) from inline to csi: kind(Dedicated) is not supported in csi migration"
    assert caught.value.message == f'running "NodeVolumeLimits" filter plugin: {text}'
    assert caught.value.nodes == ("a",)


def test_with_volume_limit_scaling_a_driver_can_insist_on_being_installed() -> None:
    nodes = [node("a"), node("other"), node("bare")]
    world = gated_cluster({"VolumeLimitScaling": True}, nodes, [])
    world.add(*bound("c"), csi_node("a", disk=None), csi_node("other", file=1))
    everywhere = dict.fromkeys(("a", "other", "bare"), PASSES)
    assert verdicts(world, using("p", "c")) == everywhere
    world.add(csi_driver(DRIVER))
    missing = unschedulable(f"{DRIVER} CSI driver is not installed on the node").by("NodeVolumeLimits")
    assert verdicts(world, using("p", "c")) == {"a": PASSES, "other": missing, "bare": missing}
    world.add(csi_driver(DRIVER, insists=False))
    assert verdicts(world, using("p", "c")) == everywhere
    world.add(csi_driver(EBS_DRIVER))
    missing = unschedulable(f"{EBS_DRIVER} CSI driver is not installed on the node").by("NodeVolumeLimits")
    inline = with_volumes(pod("p"), ebs("d"))
    assert verdicts(world, inline) == {"a": missing, "other": missing, "bare": PASSES}


def test_taking_away_who_shares_a_volume_can_take_its_place_away_too() -> None:
    """The node has more attached than it can take; a pod that brings nothing new may still come."""
    pods = [using("shares", "c").on("a"), using("more", "d").on("a")]
    world = limited(1, *pods, objects=bound("c", "d"))
    wanting = using("p", "c")
    assert on_a(world, wanting) == PASSES
    [framework] = world.frameworks.values()
    limits = framework.plugins["NodeVolumeLimits"]
    assert not limits.passes_with_fewer(world.table.info(wanting.obj()))
    assert limits.passes_with_fewer(world.table.info(using("q", "e").obj()))
    evaluation = world.evaluate(wanting)
    row = world.table.row_of("a")
    assert row is not None
    with evaluation.simulations() as simulations, simulations.row(row) as simulation:
        simulation.remove_pod(world.table.pods[pods[0].obj().metadata.uid])
        assert simulation.verdict() == TOO_MANY


def test_a_promised_pod_that_shares_a_volume_brings_it_along() -> None:
    world = limited(1, objects=bound("c", "d"))
    [framework] = world.frameworks.values()
    row = world.table.row_of("a")
    assert row is not None
    nominations = {row: [world.table.info(using("first", "c").priority(5).obj())]}
    for name, expected in (("c", PASSES), ("d", TOO_MANY)):
        evaluation = framework.evaluate(world.table.info(using("p", name).obj()), nominations)
        assert evaluation.status(row) == expected


def test_a_node_that_changes_is_judged_with_the_volumes_in_use_there_alone() -> None:
    """The volume is in use on the other node; nothing but usage changes between the attempts."""
    world = limited(1, using("there", "c").on("free"), objects=bound("c", "d"))
    wanting = using("p", "c")
    assert on_a(world, wanting) == PASSES
    world.add(using("new", "d").on("a"))
    assert on_a(world, wanting) == TOO_MANY
    world.remove(using("new", "d").on("a"))
    assert on_a(world, wanting) == PASSES


def test_a_raised_limit_and_a_detached_volume_may_help() -> None:
    info = cluster().table.info(with_volumes(pod("p"), ebs("d")).obj())
    assert after_csi_node_update(info, csi_node("a", disk=1), csi_node("a", disk=2)) is Hint.QUEUE
    assert after_csi_node_update(info, csi_node("a", disk=2), csi_node("a", disk=2, file=None)) is Hint.SKIP
    assert after_detachment(info, attachment("x", "a", "v", by=EBS_DRIVER), None) is Hint.QUEUE
    assert after_detachment(info, attachment("x", "a", "v"), None) is Hint.SKIP
    broken = cluster().table.info(with_volumes(pod("p"), azure("d", "Dedicated")).obj())
    with pytest.raises(HintError, match="converting volume"):
        after_detachment(broken, attachment("x", "a", "v"), None)


def without(*plugins: str) -> dict[str, object]:
    disabled = {"multiPoint": {"disabled": [{"name": name} for name in plugins]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": disabled}],
    }


WITHOUT_BINDING = without("VolumeBinding", "VolumeZone")
LIMITS_ALONE = without("VolumeBinding", "VolumeZone", "VolumeRestrictions")
