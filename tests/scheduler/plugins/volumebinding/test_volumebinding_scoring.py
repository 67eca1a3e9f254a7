"""Nodes by how well the volumes a pod would get there are used; only behind a feature gate."""

from collections.abc import Sequence

import pytest

from scheduler.plugins.volumebinding.binding import World
from scheduler.plugins.volumebinding.storageobjects import claim, driver, room, storage_class, using, volume
from stowplan.api.meta import Object
from stowplan.api.pod import Pod

GATES = {"StorageCapacityScoring": True}
MAKES = storage_class(provisioner="csi.example.com")


def scores(world: World, pod: Pod) -> dict[str, int] | None:
    evaluation = world.evaluate(pod)
    rows = evaluation.feasible_rows
    found = evaluation.scores(rows).get("VolumeBinding")
    if found is None:
        return None
    return {world.table.name_of(row): score for row, score in zip(rows.tolist(), found, strict=True)}


def test_without_the_gate_there_is_no_score() -> None:
    world = World([storage_class(), claim("c"), volume("v")], gates={"StorageCapacityScoring": False})
    assert scores(world, using("p", "c")) is None


def test_a_pod_without_claims_scores_nothing_anywhere() -> None:
    assert scores(World(gates=GATES), using("p")) == {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize(
    ("claims", "objects", "expected"),
    [
        pytest.param(
            ["c"],
            [storage_class(), claim("c"), volume("a", "10Gi", zone="a"), volume("b", "40Gi", zone="b")],
            {"a": 0, "b": 75},
            id="the share of a volume that is asked for; by default the emptier the better",
        ),
        pytest.param(
            ["c", "d"],
            [
                storage_class(),
                storage_class("slow"),
                claim("c"),
                claim("d", class_name="slow"),
                volume("c1", "20Gi"),
                volume("d1", "40Gi", class_name="slow", zone="a"),
                volume("d2", "30Gi", class_name="slow", zone="b"),
            ],
            {"a": 63, "b": 59},
            id="the mean over classes, rounded half up",
        ),
        pytest.param(
            ["c", "d"],
            [
                storage_class(),
                claim("c"),
                claim("d"),
                *(volume(f"{zone}{n}", f"{20 + n}Gi", zone=zone) for zone in "ab" for n in range(2)),
            ],
            {"a": 52, "b": 52},
            id="volumes of one class together",
        ),
        pytest.param(
            ["c"],
            [
                MAKES,
                driver("csi.example.com"),
                claim("c"),
                room("a", "100Gi", zone="a"),
                room("b", "20Gi", zone="b", largest="15Gi"),
                room("c", None, zone="c", largest="15Gi"),
            ],
            {"a": 90, "b": 50, "c": 0},
            id="the share of the room where a volume would be made",
        ),
        pytest.param(
            ["c", "d"],
            [
                MAKES,
                driver("csi.example.com"),
                claim("c"),
                claim("d", "30Gi"),
                room("a", "100Gi", zone="a"),
                room("b", "30Gi", zone="b"),
            ],
            {"a": 60, "b": 0},
            id="the room of a pool counts once for several volumes, more than it has is all of it",
        ),
        pytest.param(
            ["c"],
            [MAKES, claim("c")],
            {"a": 0, "b": 0, "c": 0},
            id="nothing where nobody says what room there is",
        ),
    ],
)
def test_a_node_scores(claims: Sequence[str], objects: Sequence[Object], expected: dict[str, int]) -> None:
    assert scores(World(objects, gates=GATES), using("p", *claims)) == expected


def test_scores_follow_what_is_taken() -> None:
    objects = [storage_class(), *(claim(f"c{n}") for n in range(3)), volume("b", "20Gi", zone="b")]
    world = World([*objects, volume("a1", "10Gi", zone="a"), volume("a2", "40Gi", zone="a")], gates=GATES)
    assert scores(world, using("p0", "c0")) == {"a": 0, "b": 50}
    world.reserve(using("p0", "c0"), "a")
    assert scores(world, using("p1", "c1")) == {"a": 75, "b": 50}
