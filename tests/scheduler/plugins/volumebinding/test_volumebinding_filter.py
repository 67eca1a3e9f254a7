"""Which nodes have the volumes that claims ask for, can have them made, or reach those they are bound to."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from scheduler.plugins.volumebinding.binding import AFFINITY, NO_ROOM, NO_VOLUME, VOLUME_MISSING, World
from scheduler.plugins.volumebinding.storageobjects import (
    claim,
    driver,
    room,
    storage_class,
    using,
    volume,
)
from stowplan.api.meta import LabelSelector, Object, ObjectMeta
from stowplan.api.pod import AWSElasticBlockStore, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.storage import CSINode, PersistentVolume, VolumeNodeAffinity
from stowplan.scheduler.framework.status import PluginError
from stowplan.testing import node
from stowplan.testing.builders import ZONE

P = using("p", "c")
SELECTED = "volume.kubernetes.io/selected-node"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
MAKES = storage_class(provisioner="csi.example.com")


# Volumes that claims are bound to


def test_a_bound_volume_keeps_the_pod_where_it_can_be_reached() -> None:
    world = World([claim("c", bound_to="v"), volume("v", zone="b")])
    assert world.verdicts(P) == {"a": (AFFINITY,), "b": (), "c": (AFFINITY,)}


def test_a_bound_volume_that_is_gone_rules_out_every_node() -> None:
    assert World([claim("c", bound_to="v")]).verdicts(P) == dict.fromkeys("abc", (VOLUME_MISSING,))


def test_the_first_bound_volume_that_will_not_do_decides_the_reason() -> None:
    objects = [claim("gone", bound_to="x"), claim("there", bound_to="v"), volume("v", zone="b")]
    assert World(objects).verdicts(using("p", "there", "gone")) == {
        "a": (AFFINITY,),
        "b": (VOLUME_MISSING,),
        "c": (AFFINITY,),
    }


def test_reasons_of_bound_and_unbound_claims_are_told_together() -> None:
    taken = volume("v", zone="b", claimed_by="bound", phase="Bound")
    objects = [storage_class(), claim("bound", bound_to="v"), taken, claim("c")]
    world = World([*objects, volume("free", zone="a")])
    assert world.verdicts(using("p", "bound", "c")) == {
        "a": (AFFINITY,),
        "b": (NO_VOLUME,),
        "c": (AFFINITY, NO_VOLUME),
    }


def terms(*found: NodeSelectorTerm) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=found))


def label(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("needs", "reached"),
    [
        pytest.param(None, "abc", id="nothing is needed"),
        pytest.param(VolumeNodeAffinity(), "abc", id="an affinity without demands"),
        pytest.param(terms(), "", id="demands without terms"),
        pytest.param(terms(NodeSelectorTerm()), "", id="an empty term"),
        pytest.param(
            terms(
                NodeSelectorTerm(match_expressions=(label(ZONE, "In", "a"),)),
                NodeSelectorTerm(match_expressions=(label(ZONE, "NotIn", "a", "b"),)),
            ),
            "ac",
            id="one of several terms",
        ),
        pytest.param(
            terms(NodeSelectorTerm(match_fields=(label("metadata.name", "In", "a"),))),
            "abc",
            id="names of nodes are not looked at",
        ),
        pytest.param(
            terms(
                NodeSelectorTerm(
                    match_expressions=(label(ZONE, "Exists"),),
                    match_fields=(label("metadata.name", "In", "a"),),
                )
            ),
            "abc",
            id="nor beside labels",
        ),
        pytest.param(
            terms(NodeSelectorTerm(match_expressions=(label(ZONE, "Likes", "a"),))),
            "",
            id="an unknown operator",
        ),
    ],
)
def test_a_volume_is_reached_from_nodes_with_the_labels_it_needs(
    needs: VolumeNodeAffinity | None, reached: str
) -> None:
    bound = volume("v")
    bound = replace(bound, spec=replace(bound.spec, node_affinity=needs))
    assert World([claim("c", bound_to="v"), bound]).feasible(P) == set(reached)


def migrated(name: str) -> CSINode:
    noted = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}
    return CSINode(metadata=ObjectMeta(name=name, annotations=noted))


def test_a_disk_that_csi_took_over_is_looked_for_under_the_labels_of_its_driver() -> None:
    """A node that has taken over goes by the driver's label, any other by the one from before."""
    disk = volume("v", zone="z", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1"))
    nodes = [
        node("old").labels({ZONE: "z"}).obj(),
        node("new").labels({ZONE: "z", EBS_ZONE: "z"}).obj(),
        node("halfway").labels({ZONE: "z"}).obj(),
    ]
    world = World([claim("c", bound_to="v"), disk, migrated("new")], nodes=nodes)
    assert world.feasible(P) == {"old", "new", "halfway"}
    world.table.put(migrated("halfway"))
    assert world.feasible(P) == {"old", "new"}
    world.table.discard(migrated("halfway"))
    assert world.feasible(P) == {"old", "new", "halfway"}


# Volumes that are free


def free(**differences: object) -> PersistentVolume:
    return volume("v", **differences)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        pytest.param({"size": "10Gi"}, {"size": "10Gi"}, True, id="just large enough"),
        pytest.param({"size": "10Gi"}, {"size": "10737418239"}, False, id="a byte too small"),
        pytest.param({"size": "1500m"}, {"size": "1"}, False, id="sizes are compared exactly"),
        pytest.param({"size": None}, {"size": "0"}, True, id="no size asked for"),
        pytest.param({}, {"class_name": "slow"}, False, id="another class"),
        pytest.param({}, {"volume_mode": "Filesystem"}, True, id="a filesystem is what is meant"),
        pytest.param({}, {"volume_mode": "Block"}, False, id="another mode"),
        pytest.param({"volume_mode": "Block"}, {"volume_mode": "Block"}, True, id="the same mode"),
        pytest.param({"volume_attributes_class_name": "gold"}, {}, False, id="attributes it has not"),
        pytest.param({}, {"volume_attributes_class_name": "gold"}, False, id="attributes not asked for"),
        pytest.param(
            {"volume_attributes_class_name": "gold"},
            {"volume_attributes_class_name": "gold"},
            True,
            id="the same attributes",
        ),
        pytest.param({"modes": ["ReadWriteMany"]}, {}, False, id="an access mode it has not"),
        pytest.param(
            {"modes": ["ReadOnlyMany"]}, {"modes": ["ReadWriteOnce", "ReadOnlyMany"]}, True, id="more modes"
        ),
        pytest.param(
            {"selector": LabelSelector(match_labels={"tier": "x"})},
            {"labels": {"tier": "x"}},
            True,
            id="selected",
        ),
        pytest.param(
            {"selector": LabelSelector(match_labels={"tier": "x"})},
            {"labels": {"tier": "y"}},
            False,
            id="not",
        ),
        pytest.param({}, {"phase": "Released"}, False, id="not available"),
        pytest.param({}, {"deleted": True}, False, id="about to go"),
        pytest.param({}, {"claimed_by": "other"}, False, id="promised to another claim"),
        pytest.param(
            {}, {"claimed_by": "c", "claim_uid": "old"}, False, id="promised to a claim of that name"
        ),
        pytest.param({}, {"claimed_by": "c"}, True, id="promised to whoever has the name"),
        pytest.param({}, {"claimed_by": "c", "claim_uid": "uid-c"}, True, id="promised to the claim"),
        pytest.param({}, {"claimed_by": "c", "phase": "Released"}, True, id="promised, whatever its phase"),
        pytest.param(
            {"modes": ["ReadWriteMany"]}, {"claimed_by": "c"}, True, id="promised, whatever its access modes"
        ),
        pytest.param({}, {"claimed_by": "c", "size": "1Gi"}, False, id="promised but too small"),
        pytest.param({}, {"claimed_by": "c", "deleted": True}, False, id="promised but about to go"),
    ],
)
def test_a_claim_can_have_a_volume(wanted: dict[str, object], offered: dict[str, object], fits: bool) -> None:
    world = World([storage_class(), claim("c", **wanted), free(zone="b", **offered)])  # type: ignore[arg-type]
    assert world.verdicts(P) == {"a": (NO_VOLUME,), "b": () if fits else (NO_VOLUME,), "c": (NO_VOLUME,)}


def test_a_promised_volume_out_of_reach_is_not_replaced_by_a_free_one() -> None:
    world = World([storage_class(), claim("c"), volume("own", zone="b", claimed_by="c"), volume("free")])
    assert world.feasible(P) == {"b"}


def test_small_claims_are_served_first_with_the_smallest_volume_that_will_do() -> None:
    """Were the large claim first, or a large volume taken, there would not be enough."""
    objects = [storage_class(), claim("large", "20Gi"), claim("small", "5Gi")]
    both = using("p", "large", "small")
    assert World([*objects, volume("v5", "5Gi"), volume("v20", "20Gi")]).feasible(both) == {"a", "b", "c"}
    in_b = volume("more", "30Gi", zone="b")
    assert World([*objects, volume("v20", "20Gi"), in_b]).feasible(both) == {"b"}


def test_a_volume_serves_one_claim_only() -> None:
    objects = [storage_class(), claim("one"), claim("two"), volume("v1", zone="a"), volume("v2", zone="b")]
    world = World([*objects, volume("v3", zone="b")])
    assert world.feasible(using("p", "one", "two")) == {"b"}
    assert world.feasible(using("p", "one")) == {"a", "b"}


def test_a_selector_that_cannot_be_read_fails_the_attempt() -> None:
    bad = LabelSelector(match_labels={"not a key": "x"})
    world = World([storage_class(), claim("c", selector=bad), volume("v")])
    with pytest.raises(
        PluginError, match='running "VolumeBinding" filter plugin: error creating internal label'
    ):
        world.evaluate(P)


# Volumes that can be made


@pytest.mark.parametrize(
    ("objects", "verdicts"),
    [
        pytest.param([MAKES], {"a": (), "b": (), "c": ()}, id="anywhere"),
        pytest.param([storage_class(provisioner="")], dict.fromkeys("abc", (NO_VOLUME,)), id="by nobody"),
        pytest.param(
            [storage_class(provisioner="x", allowed=[{ZONE: ["a"]}, {ZONE: ["c"]}])],
            {"a": (), "b": (NO_VOLUME,), "c": ()},
            id="where the class allows it",
        ),
        pytest.param(
            [storage_class(provisioner="x", allowed=[{}])],
            dict.fromkeys("abc", (NO_VOLUME,)),
            id="nowhere by an empty term",
        ),
        pytest.param(
            [storage_class(provisioner="x", allowed=[{ZONE: ["a"], "rack": ["1"]}])],
            dict.fromkeys("abc", (NO_VOLUME,)),
            id="only with all labels of a term",
        ),
        pytest.param([MAKES, driver("csi.example.com")], dict.fromkeys("abc", (NO_ROOM,)), id="without room"),
        pytest.param(
            [MAKES, driver("csi.example.com", storage_capacity=False)],
            {"a": (), "b": (), "c": ()},
            id="by a driver that does not care for room",
        ),
        pytest.param(
            [MAKES, driver("csi.example.com"), room("x", "10Gi", zone="a"), room("y", "9Gi", zone="b")],
            {"a": (), "b": (NO_ROOM,), "c": (NO_ROOM,)},
            id="where there is room",
        ),
        pytest.param(
            [MAKES, driver("csi.example.com"), room("x", "99Gi", zone="a", largest="9Gi")],
            dict.fromkeys("abc", (NO_ROOM,)),
            id="not where the largest volume is too small",
        ),
        pytest.param(
            [MAKES, driver("csi.example.com"), room("x", "99Gi", zone="a", class_name="slow")],
            dict.fromkeys("abc", (NO_ROOM,)),
            id="not with room of another class",
        ),
        pytest.param(
            [MAKES, driver("csi.example.com"), room("x", "99Gi"), room("y", None, zone="")],
            dict.fromkeys("abc", (NO_ROOM,)),
            id="not with room that no node reaches or of no size",
        ),
        pytest.param(
            [MAKES, driver("csi.example.com"), room("x", "99Gi", zone="")],
            {"a": (), "b": (), "c": ()},
            id="with room that every node reaches",
        ),
        pytest.param(
            [MAKES, driver("csi.example.com"), volume("v", zone="b")],
            {"a": (NO_ROOM,), "b": (), "c": (NO_ROOM,)},
            id="only if there is no free volume",
        ),
    ],
)
def test_a_volume_can_be_made(objects: Sequence[Object], verdicts: dict[str, tuple[str, ...]]) -> None:
    assert World([*objects, claim("c")]).verdicts(P) == verdicts


def test_room_is_not_asked_for_without_a_size() -> None:
    world = World([MAKES, driver("csi.example.com"), claim("c", None)])
    assert world.feasible(P) == {"a", "b", "c"}


def test_a_claim_that_already_asked_for_a_node_stays_there_and_takes_no_free_volume() -> None:
    asking = claim("c", annotations={SELECTED: "b"})
    world = World([MAKES, asking, volume("v")])
    assert world.verdicts(P) == {"a": (NO_VOLUME,), "b": (), "c": (NO_VOLUME,)}
    world.table.put(storage_class())
    assert world.feasible(P) == set()


def test_a_node_that_was_not_asked_for_is_also_told_of_volumes_out_of_reach() -> None:
    taken = volume("v", zone="a", claimed_by="bound", phase="Bound")
    world = World([MAKES, claim("bound", bound_to="v"), taken, claim("c", annotations={SELECTED: "b"})])
    assert world.verdicts(using("p", "c", "bound")) == {
        "a": (NO_VOLUME,),
        "b": (AFFINITY,),
        "c": (AFFINITY, NO_VOLUME),
    }


# Changes


def test_every_change_is_noticed() -> None:
    world = World([storage_class(), claim("c")])

    def after(change: Object) -> set[str]:
        world.table.put(change)
        return world.feasible(P)

    assert world.feasible(P) == set()
    assert after(volume("v", zone="a")) == {"a"}
    assert after(volume("w", zone="c")) == {"a", "c"}
    assert after(volume("v", zone="b", version="2")) == {"b", "c"}
    assert after(volume("v", zone="b", phase="Bound", claimed_by="other", version="3")) == {"c"}
    world.table.put_node(node("d").labels({ZONE: "c"}).obj())
    assert world.feasible(P) == {"c", "d"}
    world.table.put_node(node("d").labels({ZONE: "d"}).obj())
    assert world.feasible(P) == {"c"}
    world.table.remove_node("c")
    assert world.feasible(P) == set()
    assert after(replace(MAKES, metadata=ObjectMeta(name="fast"))) == {"a", "b", "d"}
    assert after(driver("csi.example.com")) == set()
    assert after(room("r", "10Gi", zone="d")) == {"d"}
    assert after(room("r", "5Gi", zone="d")) == set()
    assert after(room("r", "5Gi", zone="d", largest="10Gi")) == {"d"}
    world.table.discard(room("r", None))
    assert world.feasible(P) == set()
    world.table.discard(driver("csi.example.com"))
    assert world.feasible(P) == {"a", "b", "d"}


@pytest.mark.parametrize("goes", ["fast", "slow"])
def test_volumes_alike_but_for_their_class_are_told_apart_when_one_goes_and_comes_back(goes: str) -> None:
    classes = [storage_class(), storage_class("slow")]
    free = {name: volume(f"of-{name}", class_name=name) for name in ("fast", "slow")}
    world = World([*classes, claim("c"), claim("d", class_name="slow"), *free.values()])
    both = using("p", "c", "d")
    assert world.feasible(both) == {"a", "b", "c"}
    world.table.discard(free[goes])
    assert world.feasible(both) == set()
    world.table.put(free[goes])
    assert world.feasible(both) == {"a", "b", "c"}


def test_a_pod_that_is_tried_again_is_looked_at_again() -> None:
    world = World([storage_class(), claim("c"), claim("d"), volume("v", zone="b")])
    waiting = world.table.info(P)

    def feasible() -> int:
        return world.framework.evaluate(waiting).feasible_count

    assert feasible() == 1
    world.reserve(using("q", "d"), "b")
    assert feasible() == 0
    world.table.put(claim("c", bound_to="gone", version="2"))
    world.table.put(volume("gone"))
    assert feasible() == 3


def test_a_claim_that_another_pod_reserved_is_looked_at_again() -> None:
    world = World([MAKES, claim("c")])
    waiting = world.table.info(P)
    assert world.framework.evaluate(waiting).feasible_count == 3
    world.reserve(using("q", "c"), "b")
    assert world.framework.evaluate(waiting).feasible_count == 1


def test_pods_whose_claims_ask_for_the_same_are_one_class() -> None:
    objects = [storage_class(), *(claim(f"c{n}") for n in range(3)), claim("larger", "11Gi"), volume("v")]
    world = World(objects)
    sign = world.framework.plugins["VolumeBinding"].sign
    signs = [sign(world.table.info(using(f"p{n}", f"c{n}"))) for n in range(3)]
    assert len(set(signs)) == 1
    assert sign(world.table.info(using("q", "larger"))) not in signs
