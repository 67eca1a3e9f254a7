"""VolumeZone: labels of volumes against labels of nodes."""

import pytest

from scheduler.plugins.answers import PASSES, verdicts
from scheduler.plugins.volume_objects import LATE, claim, own, storage_class, using, volume, with_volumes
from stowplan.api.meta import Object
from stowplan.scheduler.framework.status import unresolvable
from stowplan.testing import cluster, node, pod

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = unresolvable("node(s) had no available volume zone").by("VolumeZone")


@pytest.mark.parametrize(
    ("of_volume", "of_node", "passes"),
    [
        ({ZONE: "z1"}, {ZONE: "z1"}, True),
        ({ZONE: "z1"}, {ZONE: "z2"}, False),
        ({ZONE: "z1__z2"}, {ZONE: "z2"}, True),
        ({ZONE: "z1 __ z2"}, {ZONE: "z2"}, True),
        ({ZONE: "z1__z2"}, {ZONE: "z3"}, False),
        ({ZONE: "z1__"}, {ZONE: "z3"}, True),
        ({OLD_ZONE: "z1"}, {OLD_ZONE: "z1", ZONE: "z2"}, True),
        ({OLD_ZONE: "z1"}, {OLD_ZONE: "z2", ZONE: "z1"}, False),
        ({OLD_ZONE: "z1"}, {ZONE: "z1"}, True),
        ({OLD_REGION: "r1"}, {REGION: "r1"}, True),
        ({OLD_REGION: "r1"}, {REGION: "r2"}, False),
        ({ZONE: "z1"}, {OLD_ZONE: "z1"}, False),
        ({ZONE: "z1"}, {REGION: "r1"}, False),
        ({ZONE: "z1", REGION: "r1"}, {ZONE: "z1", REGION: "r2"}, False),
        ({ZONE: "z1", REGION: "r1"}, {ZONE: "z1", REGION: "r1"}, True),
        ({ZONE: "z1"}, {}, True),
        ({"zone": "z1"}, {ZONE: "z2"}, True),
    ],
)
def test_a_node_is_in_place_if_each_label_of_the_volume_allows_its_own(
    of_volume: dict[str, str], of_node: dict[str, str], passes: bool
) -> None:
    objects = [volume("v", of_volume), claim("c", "v")]
    world = cluster(nodes=[node("n").labels(of_node)], objects=objects)
    assert verdicts(world, using("p", "c")) == {"n": PASSES if passes else ELSEWHERE}


def test_all_volumes_of_a_pod_must_be_in_place() -> None:
    volumes: list[Object] = [volume("v1", {ZONE: "z1__z2"}), volume("v2", {ZONE: "z2__z3"})]
    claims = [claim("c1", "v1"), claim("c2", "v2")]
    nodes = [node(zone).zone(zone) for zone in ("z1", "z2", "z3")]
    world = cluster(nodes=nodes, objects=[*volumes, *claims])
    assert verdicts(world, using("p", "c1", "c2")) == {"z1": ELSEWHERE, "z2": PASSES, "z3": ELSEWHERE}


def test_a_node_that_moves_is_judged_by_its_new_zone() -> None:
    world = cluster(nodes=[node("n").zone("z2")], objects=[volume("v", {ZONE: "z1"}), claim("c", "v")])
    assert verdicts(world, using("p", "c")) == {"n": ELSEWHERE}
    world.add(node("n").zone("z1"))
    assert verdicts(world, using("q", "c")) == {"n": PASSES}
    world.add(volume("v", {ZONE: "z3"}))
    assert verdicts(world, using("r", "c")) == {"n": ELSEWHERE}


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([claim("c", "v")], 'persistentvolume "v" not found'),
        ([claim("c")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("c", of_class="k")], 'storageclass.storage.k8s.io "k" not found'),
        (
            [claim("c", of_class="k"), storage_class("k", mode=None)],
            'VolumeBindingMode not set for StorageClass "k"',
        ),
        ([claim("c", of_class="k"), storage_class("k", mode="Immediate")], "PersistentVolume had no name"),
        ([], 'persistentvolumeclaim "c" not found'),
    ],
)
def test_a_claim_without_a_volume_rules_a_pod_out(objects: list[Object], text: str) -> None:
    world = cluster(nodes=[node("n")], objects=objects, config=ZONES_ALONE)
    assert world.evaluate(using("p", "c")).rejected_outright == unresolvable(text).by("VolumeZone")


def test_a_claim_without_a_name_rules_a_pod_out() -> None:
    world = cluster(nodes=[node("n")], config=ZONES_ALONE)
    said = world.evaluate(using("p", "")).rejected_outright
    assert said == unresolvable("PersistentVolumeClaim had no name").by("VolumeZone")


@pytest.mark.parametrize(
    "wanting",
    [using("p", "late"), pod("p"), with_volumes(pod("p"), own())],
)
def test_pods_whose_volumes_are_made_where_they_go_are_skipped(wanting: object) -> None:
    objects = [claim("late", of_class="k"), storage_class("k", mode=LATE), claim("p-v")]
    world = cluster(nodes=[node("n")], objects=objects, config=ZONES_ALONE)
    assert world.evaluate(wanting).cycle.skipped == {"VolumeZone"}  # type: ignore[arg-type]


ZONES_ALONE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"disabled": [{"name": "*"}]},
                "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                "bind": {"enabled": [{"name": "DefaultBinder"}]},
                "preFilter": {"enabled": [{"name": "VolumeZone"}]},
                "filter": {"enabled": [{"name": "VolumeZone"}]},
            },
        }
    ],
}
