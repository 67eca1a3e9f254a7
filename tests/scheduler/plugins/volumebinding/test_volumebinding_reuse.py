"""Whatever happens, kept answers equal answers from scratch, and both equal the plain rules."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from msgspec.structs import replace

from effort import LONG, examples
from scheduler.plugins.volumebinding import plainly
from scheduler.plugins.volumebinding.binding import World
from scheduler.plugins.volumebinding.storageobjects import (
    NO_PROVISIONER,
    claim,
    driver,
    room,
    storage_class,
    using,
    volume,
)
from stowplan.api.meta import LabelSelector
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.plugins.volumebinding import results
from stowplan.scheduler.table.storage import Storage
from stowplan.testing import node
from stowplan.testing.builders import HOSTNAME, ZONE

NAMES = [f"n{number}" for number in range(5)]
ZONES = ["x", "y", "z"]
CLAIMS = [f"c{number}" for number in range(5)]
CLASSES = ["fast", "made"]
SIZES = {"5Gi": "a", "10Gi": "b", "15Gi": "a", "20Gi": "c"}
"""Sizes, and the kind of volume that has the size: volumes of one size differ only in place."""

NEEDS: list[Mapping[str, list[str]] | None] = [
    None,
    *({ZONE: [zone]} for zone in ZONES),
    {ZONE: ["x", "y"]},
    *({HOSTNAME: [name]} for name in NAMES[:2]),
]
PODS = [
    ("c0",),
    ("c1",),
    ("c2",),
    ("c0", "c1"),
    ("c1", "c2", "c3"),
    ("c4",),
]
GATES = {"StorageCapacityScoring": True}


def volumes(name: str, size: str, needs: int, **fields: Any) -> Any:
    kind = SIZES[size]
    modes = {"a": ["ReadWriteOnce"], "b": ["ReadWriteOnce", "ReadWriteMany"], "c": ["ReadWriteMany"]}[kind]
    return volume(name, size, needs=NEEDS[needs], modes=modes, labels={"kind": kind}, **fields)


class StorageMachine(RuleBasedStateMachine):
    """Storage, nodes and pods change at random; every pod is looked at after each step."""

    @initialize()
    def begin(self) -> None:
        self.version = 1
        self.held: list[tuple[Evaluation, str]] = []
        nodes = [node(name).labels({ZONE: ZONES[n % 3]}).obj() for n, name in enumerate(NAMES[:4])]
        objects = [storage_class("fast"), storage_class("made", provisioner="csi"), driver("csi")]
        self.world = World(objects, nodes=nodes, gates=GATES)
        self.scratch = World(table=self.world.table, gates=GATES, reuse=False)
        for number, size in enumerate(SIZES):
            self.put_volume(number, size, number, "fast", "Available")
        for number, name in enumerate(CLAIMS):
            self.put_claim(name, ["1Gi", "10Gi"][number % 2], CLASSES[number // 3], ["ReadWriteOnce"], False)
        self.put_room(0, "12Gi", None, "x", "made")

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    @property
    def storage(self) -> Storage:
        return self.world.table.storage

    # Nodes

    @rule(name=st.sampled_from(NAMES), zone=st.sampled_from(ZONES))
    def put_node(self, name: str, zone: str) -> None:
        self.world.table.put_node(node(name).labels({ZONE: zone}).obj())

    @rule(name=st.sampled_from(NAMES))
    def remove_node(self, name: str) -> None:
        if self.world.table.row_of(name) is not None:
            self.world.table.remove_node(name)

    # Storage

    @rule(
        number=st.integers(0, 7),
        size=st.sampled_from(list(SIZES)),
        needs=st.integers(0, len(NEEDS) - 1),
        class_name=st.sampled_from(CLASSES),
        phase=st.sampled_from(["Available", "Available", "Released"]),
    )
    def put_volume(self, number: int, size: str, needs: int, class_name: str, phase: str) -> None:
        where = place_of(size, needs)
        new = volumes(f"v{number}", size, where, class_name=class_name, phase=phase, version=self._next())
        self.world.table.put(new)

    @rule(number=st.integers(0, 7))
    def remove_volume(self, number: int) -> None:
        found = self.storage.volumes.get(f"v{number}")
        if found is not None:
            self.world.table.discard(found)

    @rule(
        name=st.sampled_from(CLAIMS),
        size=st.sampled_from(["1Gi", "10Gi", "15Gi", None]),
        class_name=st.sampled_from(CLASSES),
        modes=st.sampled_from([["ReadWriteOnce"], ["ReadWriteMany"], []]),
        selects=st.booleans(),
    )
    def put_claim(
        self, name: str, size: str | None, class_name: str, modes: list[str], selects: bool
    ) -> None:
        selector = LabelSelector(match_labels={"kind": "a"}) if selects else None
        version = self._next()
        self.world.table.put(
            claim(name, size, class_name=class_name, modes=modes, selector=selector, version=version)
        )

    @rule(name=st.sampled_from(CLAIMS), number=st.integers(0, 8))
    def put_bound_claim(self, name: str, number: int) -> None:
        self.world.table.put(claim(name, bound_to=f"v{number}", version=self._next()))

    @rule(name=st.sampled_from(CLAIMS))
    def remove_claim(self, name: str) -> None:
        found = self.storage.claims.get(f"default/{name}")
        if found is not None:
            self.world.table.discard(found)

    @rule(
        name=st.sampled_from(CLASSES),
        provisioner=st.sampled_from([NO_PROVISIONER, "csi"]),
        allowed=st.sampled_from([(), ({ZONE: ["x"]},), ({ZONE: ["x"]}, {ZONE: ["z"]})]),
    )
    def put_class(self, name: str, provisioner: str, allowed: Any) -> None:
        self.world.table.put(storage_class(name, provisioner=provisioner, allowed=allowed))

    @rule(cares=st.booleans())
    def put_driver(self, cares: bool) -> None:
        self.world.table.put(driver("csi", storage_capacity=cares))

    @rule(
        number=st.integers(0, 3),
        capacity=st.sampled_from([None, "1Gi", "12Gi", "40Gi"]),
        largest=st.sampled_from([None, None, "5Gi"]),
        zone=st.sampled_from([None, "", *ZONES]),
        class_name=st.sampled_from(CLASSES),
    )
    def put_room(
        self, number: int, capacity: str | None, largest: str | None, zone: str | None, class_name: str
    ) -> None:
        self.world.table.put(room(f"r{number}", capacity, largest=largest, zone=zone, class_name=class_name))

    @rule(number=st.integers(0, 3))
    def remove_room(self, number: int) -> None:
        found = self.storage.capacities.get(f"kube-system/r{number}")
        if found is not None:
            self.world.table.discard(found)

    # Pods

    @rule(which=st.integers(0, len(PODS) - 1), nth=st.integers(0, 10))
    def reserve(self, which: int, nth: int) -> None:
        evaluation = self.world.evaluate(using(f"p{which}", *PODS[which]))
        rows = evaluation.feasible_rows.tolist()
        if rows:
            on = self.world.table.name_of(rows[nth % len(rows)])
            status = self.world.lifecycle.reserve(evaluation.cycle, evaluation.cycle.pod, on)
            assert status.is_success, status
            self.held.append((evaluation, on))

    @precondition(lambda self: self.held)
    @rule(nth=st.integers(0, 10))
    def unreserve(self, nth: int) -> None:
        evaluation, on = self.held.pop(nth % len(self.held))
        assert self.world.lifecycle.unreserve(evaluation.cycle, evaluation.cycle.pod, on) == []

    @rule(number=st.integers(0, 7))
    def tell_of_a_match(self, number: int) -> None:
        """The API server has the volume as it was assumed."""
        found = self.storage.volume(f"v{number}")
        if found is not None and found is not self.storage.volumes[found.name]:
            metadata = replace(found.metadata, resource_version=self._next())
            self.world.table.put(replace(found, metadata=metadata))

    # Invariants

    @invariant()
    def every_answer_is_right(self) -> None:
        table = self.world.table
        for which, claims in enumerate(PODS):
            pod = using(f"p{which}", *claims)
            kept, fresh = self.world.evaluate(pod), self.scratch.evaluate(pod)
            assert kept.rejected_outright == fresh.rejected_outright
            nodes = [found for found in table.nodes if found is not None]
            plain = {found.name: plainly.reasons(table.storage, pod, found) for found in nodes}
            if kept.rejected_outright is not None:
                assert set(plain.values()) <= {None}
                continue
            rows = {found.name: table.row_of(found.name) for found in nodes}
            for evaluation in (kept, fresh):
                told = {name: evaluation.status(row).reasons for name, row in rows.items() if row is not None}
                assert told == plain, claims
            assert kept.scored == fresh.scored
            if kept.scored:
                assert kept.scores(kept.feasible_rows) == fresh.scores(fresh.feasible_rows)


def place_of(size: str, needs: int) -> int:
    """Where volumes of a size are: two places for each size, so that there is a choice of sizes somewhere."""
    return (list(SIZES).index(size) * 2 + needs % 2) % len(NEEDS)


SHORT = settings(
    max_examples=20,
    stateful_step_count=25,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
FAR = settings(SHORT, max_examples=examples(20), stateful_step_count=60, derandomize=False)


def test_kept_answers_equal_answers_from_scratch_and_the_plain_rules() -> None:
    run_machine(StorageMachine, settings=FAR if LONG else SHORT)


@pytest.mark.parametrize("missed", ["_follow_nodes", "_follow_groups", "_follow_provisioning"])
def test_a_change_that_is_missed_is_found_out(missed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof that the test above can fail."""
    monkeypatch.setattr(results.VolumeResults, missed, lambda *_: {"_follow_nodes": False}.get(missed, True))
    with pytest.raises(AssertionError):
        run_machine(StorageMachine, settings=settings(SHORT, phases=[Phase.generate]))
