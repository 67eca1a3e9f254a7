"""Claims that prevent scheduling on every node."""

from collections.abc import Sequence

import pytest

from scheduler.plugins.volumebinding.binding import World
from scheduler.plugins.volumebinding.storageobjects import (
    IMMEDIATE,
    claim,
    storage_class,
    using,
    volume,
)
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.status import SUCCESS, PluginError, unresolvable

P = using("p", "c")
EPHEMERAL = using("p", ephemeral=["scratch"])
OWN = claim("p-scratch", owner=EPHEMERAL.metadata.uid)


@pytest.mark.parametrize(
    ("pod", "objects", "reason"),
    [
        pytest.param(P, [], 'persistentvolumeclaim "c" not found', id="a claim that does not exist"),
        pytest.param(
            P,
            [claim("c", phase="Lost", names="v")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="a claim that lost its volume",
        ),
        pytest.param(
            P,
            [claim("c", deleted=True)],
            'persistentvolumeclaim "c" is being deleted',
            id="a claim that goes",
        ),
        pytest.param(
            EPHEMERAL,
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"',
            id="a claim not made yet",
        ),
        pytest.param(
            EPHEMERAL,
            [claim("p-scratch", owner="somebody else")],
            "PVC default/p-scratch was not created for pod default/p (pod is not owner)",
            id="a claim of somebody else under the name of the pod's own",
        ),
        pytest.param(
            P,
            [storage_class(mode=IMMEDIATE), claim("c")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="an immediate claim not bound yet",
        ),
        pytest.param(
            P,
            [claim("c", class_name="no-such-class")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim of an unknown class",
        ),
        pytest.param(
            P,
            [storage_class(), claim("c", names="v"), volume("v")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that names a volume but is not bound to it yet",
        ),
        pytest.param(
            using("p", "immediate", "missing"),
            [claim("immediate")],
            'persistentvolumeclaim "missing" not found',
            id="a missing claim goes before one not bound",
        ),
    ],
)
def test_a_claim_rules_out_every_node(pod: Pod, objects: Sequence[Object], reason: str) -> None:
    assert World(objects).verdicts(pod) == unresolvable(reason).by("VolumeBinding")


def test_a_claim_the_pod_owns_is_looked_at_like_any_other() -> None:
    world = World([storage_class(), OWN, volume("v", zone="b")])
    assert world.feasible(EPHEMERAL) == {"b"}


def test_a_pod_without_claims_is_skipped() -> None:
    evaluation = World().evaluate(using("p"))
    assert (evaluation.status(0), evaluation.cycle.skipped) == (SUCCESS, frozenset({"VolumeBinding"}))


def test_a_class_that_does_not_say_when_it_binds_fails_the_attempt() -> None:
    world = World([storage_class(mode=None), claim("c")])
    with pytest.raises(PluginError, match='VolumeBindingMode not set for StorageClass "fast"'):
        world.evaluate(P)


def test_the_class_in_an_old_annotation_goes_before_the_field() -> None:
    old = {"volume.beta.kubernetes.io/storage-class": "slow"}
    world = World([storage_class("slow"), claim("c", annotations=old), volume("v", class_name="slow")])
    assert world.feasible(P) == {"a", "b", "c"}


def test_what_a_claim_lacks_is_not_remembered_when_it_comes() -> None:
    world = World([storage_class(), volume("v", zone="b")])
    assert world.verdicts(P) == unresolvable('persistentvolumeclaim "c" not found').by("VolumeBinding")
    world.table.put(claim("c"))
    assert world.feasible(P) == {"b"}
    world.table.discard(claim("c"))
    assert world.verdicts(P) == unresolvable('persistentvolumeclaim "c" not found').by("VolumeBinding")
