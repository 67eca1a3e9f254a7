"""MaxEBSVolumeCount and its like: limits of one kind of disk each, for those who still want them."""

from typing import Any

import pytest

from scheduler.plugins.answers import PASSES, verdicts
from scheduler.plugins.volume_objects import (
    azure,
    claim,
    csi_node,
    ebs,
    gce,
    own,
    storage_class,
    using,
    volume,
    with_volumes,
)
from stowplan.api.meta import Object
from stowplan.api.pod import AWSElasticBlockStore, Volume
from stowplan.config import ConfigError, default_profile, load
from stowplan.scheduler.framework.status import PluginError, unresolvable, unschedulable
from stowplan.testing import Cluster, NodeBuilder, PodBuilder, cluster, node, pod

LABEL = "node.kubernetes.io/instance-type"
EBS = "MaxEBSVolumeCount"


def config(name: str, most: int | None = None) -> dict[str, Any]:
    off = [{"name": other} for other in OFF]
    plugins = {"multiPoint": {"enabled": [{"name": name}], "disabled": off}}
    profile: dict[str, Any] = {"schedulerName": "default-scheduler", "plugins": plugins}
    if most is not None:
        profile["pluginConfig"] = [{"name": name, "args": {"maxVolumes": most}}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


OFF = ("VolumeRestrictions", "VolumeBinding", "VolumeZone", "NodeVolumeLimits")


def with_plugin(
    name: str, *pods: PodBuilder, on: NodeBuilder | None = None, most: int | None = None, objects: Any = ()
) -> Cluster:
    return cluster(nodes=[on or node("a")], pods=pods, objects=objects, config=config(name, most))


def too_many(name: str) -> Any:
    return unschedulable("node(s) exceed max volume count").by(name)


def disks(make: Any, count: int) -> list[Volume]:
    return [make(f"d{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("name", "make", "machine", "limit"),
    [
        (EBS, ebs, "", 39),
        (EBS, ebs, "m4.large", 39),
        (EBS, ebs, "m5.large", 25),
        (EBS, ebs, "c5d.9xlarge", 25),
        (EBS, ebs, "t3.nano", 25),
        (EBS, ebs, "z1d.metal", 25),
        (EBS, ebs, "xm5", 39),
        ("MaxGCEPDVolumeCount", gce, "", 16),
        ("MaxAzureDiskVolumeCount", azure, "", 16),
    ],
)
def test_every_kind_of_disk_has_its_limit(name: str, make: Any, machine: str, limit: int) -> None:
    labelled = node("a").labels({LABEL: machine}) if machine else node("a")
    there = with_volumes(pod("there"), *disks(make, limit - 1)).on("a")
    world = with_plugin(name, there, on=labelled)
    assert verdicts(world, with_volumes(pod("p"), make("new"))) == {"a": PASSES}
    assert verdicts(world, with_volumes(pod("p"), make("new"), make("newer"))) == {"a": too_many(name)}
    assert verdicts(world, with_volumes(pod("p"), make("new"), make("d0"))) == {"a": PASSES}


def test_what_the_node_says_goes_before_the_arguments_and_these_before_the_machine() -> None:
    two = with_volumes(pod("p"), ebs("x"), ebs("y"))
    assert verdicts(with_plugin(EBS, most=1), two) == {"a": too_many(EBS)}
    assert verdicts(with_plugin(EBS, most=2), two) == {"a": PASSES}
    says_two, says_none = (node("a").allocatable({"attachable-volumes-aws-ebs": n}) for n in (2, 0))
    assert verdicts(with_plugin(EBS, on=says_two, most=1), two) == {"a": PASSES}
    assert verdicts(with_plugin(EBS, on=says_none, most=9), two) == {"a": too_many(EBS)}


def test_claims_count_by_the_disk_behind_them_or_the_one_to_come() -> None:
    disk = volume("v", aws_elastic_block_store=AWSElasticBlockStore(volume_id="d"))
    objects: list[Object] = [
        disk,
        claim("bound", "v"),
        claim("late", of_class="k"),
        claim("lost", "w", of_class="k"),
    ]
    objects += [storage_class("k", "kubernetes.io/aws-ebs"), claim("plain"), claim("twin", "v")]
    world = with_plugin(EBS, using("there", "bound").on("a"), most=1, objects=objects)
    assert verdicts(world, using("p", "twin")) == {"a": PASSES}
    assert verdicts(world, using("p", "late")) == {"a": too_many(EBS)}
    assert verdicts(world, using("p", "lost")) == {"a": too_many(EBS)}
    assert verdicts(world, using("p", "plain")) == {"a": PASSES}
    assert verdicts(world, with_volumes(pod("p"), gce("d"))) == {"a": PASSES}


def test_a_node_with_more_than_it_can_take_gets_no_more_even_of_the_same() -> None:
    there = with_volumes(pod("there"), ebs("d"), ebs("e")).on("a")
    world = with_plugin(EBS, there, most=1)
    assert verdicts(world, with_volumes(pod("p"), ebs("d"))) == {"a": too_many(EBS)}


def test_nodes_with_a_csi_node_leave_the_matter_to_drivers() -> None:
    world = with_plugin(EBS, most=1, objects=[csi_node("a")])
    wanting = with_volumes(pod("p"), ebs("d"), ebs("e"))
    assert verdicts(world, wanting) == {"a": PASSES}
    world.remove(csi_node("a"))
    assert verdicts(world, wanting) == {"a": too_many(EBS)}


def test_claims_that_are_missing_or_of_somebody_else_are_told() -> None:
    world = with_plugin(EBS, objects=[claim("p-v"), claim("q-v")])
    lost = 'looking up PVC default/lost: persistentvolumeclaim "lost" not found'
    assert verdicts(world, using("p", "lost")) == {"a": unresolvable(lost).by(EBS)}
    with pytest.raises(PluginError, match=f'"{EBS}" filter plugin: PVC default/p-v was not created'):
        world.evaluate(with_volumes(pod("p"), own()))
    world.add(with_volumes(pod("q"), own()).on("a"))
    with pytest.raises(PluginError, match=f'"{EBS}" filter plugin: PVC default/q-v was not created'):
        world.evaluate(with_volumes(pod("p"), ebs("d")))


def test_what_only_drivers_cannot_make_out_is_no_concern_here() -> None:
    there = with_volumes(pod("there"), azure("d", "Dedicated")).on("a")
    world = with_plugin("MaxAzureDiskVolumeCount", there, most=1)
    assert verdicts(world, with_volumes(pod("p"), azure("d", "Dedicated"))) == {"a": PASSES}
    assert verdicts(world, with_volumes(pod("p"), azure("e"))) == {"a": too_many("MaxAzureDiskVolumeCount")}


def test_they_are_no_part_of_the_default_profile() -> None:
    assert not [name for names in default_profile().plugins.values() for name in names if "Max" in str(name)]


def test_a_negative_number_of_volumes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"maxVolumes.*-1.*not in valid range"):
        load(str(config(EBS, -1)).replace("'", '"'))
