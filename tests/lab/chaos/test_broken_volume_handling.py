"""A scheduler that is careless with volumes does not get away with it."""

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any, Final

import pytest

from stowplan.lab.chaos import execute, plan_of
from stowplan.scheduler.framework.status import SKIP
from stowplan.scheduler.plugins.volumebinding import VolumeBinding, binder
from stowplan.scheduler.plugins.volumebinding.binder import PodVolumes
from stowplan.scheduler.plugins.volumebinding.results import VolumeResults
from stowplan.scheduler.plugins.volumerestrictions import VolumeRestrictions
from stowplan.scheduler.table.storage import Storage

LOOKED_AT: Final = 25
"""Seeds that are tried if the one below does not show it any more: plans may have become different ones."""


def _seeds(first: int) -> Iterator[int]:
    yield first
    yield from islice((seed for seed in count() if plan_of(seed).storage is not None), LOOKED_AT)


Break = Callable[[pytest.MonkeyPatch], None]


def _keep_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodVolumes, "revert", lambda self, storage: None)


def _assume_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Storage, "assume_volume", lambda self, volume: None)
    patch.setattr(Storage, "assume_claim", lambda self, claim: None)


def _overwrite(patch: pytest.MonkeyPatch) -> None:
    """Volumes are written with any version, without a record of their owners."""

    async def put(client: Any, resource: Any, obj: Any, changes: Any) -> Any:
        current = await client.get(resource, obj.namespace, obj.name)
        return await client.update(resource, binder._merged(current, changes))

    patch.setattr(binder, "_put", put)
    _assume_nothing(patch)


def _look_at_no_node(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VolumeBinding, "filter", lambda self, cycle, pod, nodes: None)
    patch.setattr(VolumeBinding, "filter_row", lambda self, cycle, pod, row: 0)


def _share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VolumeRestrictions, "pre_filter", lambda self, cycle, pod: SKIP)


def _wait_for_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(binder._Watch, "all_bound", lambda self: True)


def _find_nothing(patch: pytest.MonkeyPatch) -> None:
    """No node ever has the volumes for a claim."""
    sync = VolumeResults.sync

    def full(self: VolumeResults) -> None:
        sync(self)
        self.conflicts = self.conflicts | 2

    patch.setattr(VolumeResults, "sync", full)


SABOTAGES: Final[dict[str, tuple[Break, str, int]]] = {
    "what was taken is not given back": (_keep_everything, "assumed volumes belong to an assumed pod", 48),
    "what was taken is not remembered": (_assume_nothing, "volumes of an assumed pod are assumed", 62),
    "volumes are taken from others": (_overwrite, "no volume has two claims", 5),
    "where volumes are is not looked at": (
        _look_at_no_node,
        "no pod is bound out of reach of its volumes",
        16,
    ),
    "claims for one pod are shared": (_share, "a ReadWriteOncePod claim has one user", 62),
    "claims are not waited for": (_wait_for_nobody, "no pod is bound before its claims are", 21),
    "volumes are never found": (_find_nothing, "every pod that fits is bound", 16),
}
"""The break, the invariant that notices, and a seed whose run shows it."""


@pytest.mark.parametrize("name", SABOTAGES)
def test_carelessness_with_volumes_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage, invariant, first = SABOTAGES[name]
    sabotage(monkeypatch)
    for seed in _seeds(first):
        if invariant in {finding.invariant for finding in execute(plan_of(seed)).findings}:
            return
    pytest.fail(f"{invariant!r} was not found broken within {LOOKED_AT} seeds")
