"""A volume with two claims or a claim with two volumes, and the writer of that."""

from typing import Any

import pytest

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.requests import PatchType
from stowplan.lab.chaos import plan_of
from stowplan.lab.chaos.invariants import ONE_CLAIM, ONE_VOLUME, VolumeOwnership
from stowplan.lab.chaos.world import ChaosWorld


class Still:
    """A clock that stands still."""

    def now(self) -> float:
        return 1_767_225_600.0

    def monotonic(self) -> float:
        return self.now()


class Desk:
    """Volumes v and w, claims c and d, and their writers."""

    def __init__(self) -> None:
        self.world = ChaosWorld(plan_of(0), Still())
        self.ownership = VolumeOwnership(self.world)
        for name in ("v", "w"):
            self.world.store.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": {}})
        self.uids = {}
        for name in ("c", "d"):
            body: dict[str, Any] = {"metadata": {"name": name, "namespace": "d"}, "spec": {}}
            made = self.world.store.create(PERSISTENT_VOLUME_CLAIMS, body)
            self.uids[name] = made["metadata"]["uid"]

    def promise(self, volume: str, claim: str) -> None:
        ref = {"namespace": "d", "name": claim, "uid": self.uids[claim]} if claim else None
        self.world.store.patch(PERSISTENT_VOLUMES, "", volume, {"spec": {"claimRef": ref}}, PatchType.MERGE)

    def give(self, claim: str, volume: str) -> None:
        patch = {"spec": {"volumeName": volume}}
        self.world.store.patch(PERSISTENT_VOLUME_CLAIMS, "d", claim, patch, PatchType.MERGE)

    @property
    def broken(self) -> list[str]:
        self.ownership.check_at_rest()
        return sorted({finding.invariant for finding in self.world.findings.found})


PROMISE, GIVE = Desk.promise, Desk.give


@pytest.mark.parametrize(
    ("deeds", "broken"),
    [
        pytest.param([(PROMISE, "v", "c"), (GIVE, "c", "v")], [], id="a volume becomes a claim's"),
        pytest.param(
            [(PROMISE, "v", "c"), (PROMISE, "v", ""), (PROMISE, "v", "d"), (GIVE, "d", "v")],
            [],
            id="a volume is let go and goes to another",
        ),
        pytest.param([(PROMISE, "v", "c"), (PROMISE, "v", "d")], [ONE_CLAIM], id="a volume is taken away"),
        pytest.param([(GIVE, "c", "v"), (GIVE, "d", "v")], [ONE_CLAIM], id="two claims have one volume"),
        pytest.param([(GIVE, "c", "v"), (PROMISE, "v", "d")], [ONE_CLAIM], id="a volume in use is promised"),
        pytest.param([(GIVE, "c", "v"), (GIVE, "c", "w")], [ONE_VOLUME], id="a claim changes its volume"),
        pytest.param(
            [(PROMISE, "v", "c"), (PROMISE, "w", "c")], [ONE_VOLUME], id="two volumes for one claim"
        ),
        pytest.param([(PROMISE, "v", "c"), (GIVE, "c", "w")], [ONE_VOLUME], id="the two do not agree"),
    ],
)
def test_whose_a_volume_is(deeds: list[tuple[Any, str, str]], broken: list[str]) -> None:
    desk = Desk()
    for deed, first, second in deeds:
        deed(desk, first, second)
    assert desk.broken == broken
