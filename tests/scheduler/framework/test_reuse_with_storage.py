"""Kept results hold while claims, volumes, limits and attachments come, change and go.

As in test_reuse_is_exact.py: after every step what the reusing runtime says is compared with a table made
anew and a runtime that reuses nothing. Names are few, so that pods meet each other's volumes.
"""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from scheduler.plugins.volume_objects import (
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
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import AWSElasticBlockStore, Pod
from stowplan.api.rules.csitranslation import BETA_ZONE, ZONE
from stowplan.config import build, load
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError, Status
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, node, pod
from stowplan.testing.reuse_machine import MirroredCluster, describe_evaluation

GATES = FeatureGates({"VolumeLimitScaling": True})
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: MaxEBSVolumeCount}]
      disabled: [{name: VolumeBinding}]
  pluginConfig:
  - {name: MaxEBSVolumeCount, args: {maxVolumes: 2}}
"""
[PROFILE] = build(load(CONFIG, GATES)).profiles

NODES, CLAIMS, VOLUMES, CLASSES = "abcd", ("c1", "c2", "c3", "p-own"), ("v1", "v2", "v3"), ("late", "old")
LIMITS = st.none() | st.integers(0, 2)

some_disks = st.sampled_from(
    [ebs("vol-1"), ebs("vol-2"), gce("d"), gce("d", read_only=True), azure("z", "Shared")]
)


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    named = draw(st.lists(st.sampled_from(CLAIMS[:3]), max_size=2))
    volumes = [*using("p", *named).pod.spec.volumes, *draw(st.lists(some_disks, max_size=1))]
    if draw(st.integers(0, 3)) == 0:
        volumes.append(own("own"))
    return with_volumes(pod("p"), *volumes).requests(cpu=draw(st.integers(0, 2)))


@st.composite
def claims(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from(CLAIMS))
    modes = draw(st.sampled_from([("ReadWriteOnce",), ("ReadWriteOncePod",)]))
    bound_to = draw(st.sampled_from(["", *VOLUMES]))
    of_class = draw(st.sampled_from([None, *CLASSES]))
    owner = pod("p").uid("u1") if draw(st.booleans()) else None
    return claim(name, bound_to, of_class=of_class, modes=modes, owner=owner)


@st.composite
def persistent_volumes(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from(VOLUMES))
    if draw(st.integers(0, 3)) == 0:
        disk = AWSElasticBlockStore(volume_id=draw(st.sampled_from(["vol-1", "vol-2"])))
        return volume(name, aws_elastic_block_store=disk)
    made = csi_volume(name, handle=draw(st.sampled_from(["h1", "h2"])))
    key = draw(st.sampled_from([None, ZONE, BETA_ZONE]))
    return (
        made
        if key is None
        else volume(name, {key: draw(st.sampled_from(["z1", "z1__z2"]))}, csi=made.spec.csi)
    )


@st.composite
def csi_nodes(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from(NODES))
    if draw(st.integers(0, 3)) == 0:
        return csi_node_of(name, "ebs.csi.aws.com", draw(st.integers(0, 2)))
    return csi_node(name, **draw(st.dictionaries(st.sampled_from(["disk", "file"]), LIMITS)))


around = st.one_of(
    claims(),
    persistent_volumes(),
    csi_nodes(),
    st.builds(
        attachment,
        st.sampled_from(["x", "y"]),
        st.sampled_from(NODES),
        st.sampled_from([None, *VOLUMES]),
        st.sampled_from(["disk.example.com", "file.example.com"]),
    ),
    st.builds(storage_class, st.just("late"), st.sampled_from(["disk.example.com", "file.example.com"])),
    st.just(storage_class("old", "kubernetes.io/aws-ebs")),
    st.builds(csi_driver, st.just("disk.example.com"), insists=st.booleans()),
)


class Storied:
    """A world with a runtime that reuses what it can, told what to do by a drawn history."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.world = MirroredCluster()
        self.kept = Framework(PROFILE, self.world.table, in_tree_registry(), GATES)
        self.world.put_node(node("a").zone("z1").obj())

    def step(self) -> None:
        kind = self.draw(
            st.sampled_from(["put", "put", "discard", "node", "no node", "pod", "pod", "no pod"])
        )
        world = self.world
        if kind == "put":
            world.put(self.draw(around))
        elif kind == "discard" and world.around:
            world.discard(self.draw(st.sampled_from(list(world.around.values()))))
        elif kind == "node":
            name, zone = self.draw(st.sampled_from(NODES)), self.draw(st.sampled_from(["z1", "z2"]))
            world.put_node(node(name).zone(zone).obj())
        elif kind == "no node" and world.nodes:
            world.remove_node(self.draw(st.sampled_from(list(world.nodes))))
        elif kind == "pod":
            world.put_pod(world.named(self.draw(pods()).pod, self.draw(st.sampled_from("pq"))), self.on())
        elif kind == "no pod" and world.pods:
            world.remove_pod(self.draw(st.sampled_from(list(world.pods))))

    def on(self) -> str:
        name: str = self.draw(st.sampled_from(NODES))
        return name


def outcome(framework: Framework, wanting: Pod) -> Any:
    """All that is said of a pod, or the error; and what is said of nodes as their pods are taken away."""
    try:
        evaluation = framework.evaluate(framework.table.info(wanting))
        return describe_evaluation(framework, evaluation), taken_away(framework.table, evaluation)
    except PluginError as error:
        return error.message, sorted(error.nodes)


def taken_away(table: ClusterTable, evaluation: Evaluation) -> dict[str, list[Status | str | None]]:
    found: dict[str, list[Status | str | None]] = {}
    if evaluation.rejected_outright is not None:
        return found
    with evaluation.simulations() as simulations:
        for row in np.flatnonzero(table.valid).tolist():
            said = found[table.name_of(row)] = []
            with simulations.row(row) as simulation:
                untouched = simulation.verdict() if evaluation.status(row).is_success else None
                assert untouched is None
                for _, info in sorted(table.pods_on[row].items()):
                    simulation.remove_pod(info)
                    try:
                        said.append(simulation.verdict())
                    except PluginError as error:
                        said.append(error.message)
    return found


@given(st.data())
@settings(max_examples=examples(60))
def test_what_is_kept_is_what_is_found_from_scratch(data: st.DataObject) -> None:
    story = Storied(data.draw)
    wanting = [data.draw(pods()).uid("u1").obj() for _ in range(2)]
    for _ in range(data.draw(st.integers(1, 12))):
        story.step()
        anew = Framework(PROFILE, story.world.rebuilt(), in_tree_registry(), GATES, reuse=False)
        for one in wanting:
            assert outcome(story.kept, one) == outcome(anew, one)
    assert counted(story.world.table) == counted(story.world.rebuilt())


def counted(table: ClusterTable) -> dict[str, Any]:
    """Counts of volumes, by node."""
    in_use = table.volumes_in_use
    attached = in_use.attached
    found: dict[str, Any] = {"claims": in_use.claims}
    for row in np.flatnonzero(table.valid).tolist():
        drivers = ("disk.example.com", "file.example.com", "ebs.csi.aws.com", "kubernetes.io/aws-ebs")
        limits = [attached.limits(driver) for driver in drivers]
        found[table.name_of(row)] = {
            "counts": [int(attached.counts(driver)[row]) for driver in drivers],
            "limits": [None if line is None or line[row] == 1 << 40 else int(line[row]) for line in limits],
            "csi node": bool(attached.has_csi_node[row]),
            "users": {volume: rows[row] for volume, rows in attached.users.items() if row in rows},
            "faults": sorted(in_use.faults.get(row, {})),
        }
    return found


def test_nothing_is_left_behind_when_everything_is_gone() -> None:
    world = MirroredCluster()
    objects = [csi_volume("v1"), claim("c1", "v1"), attachment("x", "a", "v1"), csi_node("a", disk=1)]
    for obj in objects:
        world.put(obj)
    world.put_node(node("a").obj())
    story = with_volumes(pod("p"), *using("p", "c1").pod.spec.volumes, ebs("d"), own("own")).obj()
    world.put(claim("p-own"))
    world.put_pod(story, "a")
    in_use = world.table.volumes_in_use
    assert all((in_use.faults, in_use.claims, in_use.attached.users))
    world.remove_pod(story.metadata.uid)
    world.remove_node("a")
    for obj in objects:
        world.discard(obj)
    assert not any((in_use.faults, in_use.claims, in_use.attached.users, in_use.attached._attached))
    assert not any((in_use._users, in_use._needs, in_use._attachments, in_use._attachments_to))
    assert all(not line.any() for line in in_use.attached._counts.values())
