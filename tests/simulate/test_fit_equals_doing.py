"""`fit` equals doing it: as many replicas run in a cluster in virtual time as it said; the same ends it."""

import asyncio
import re
from dataclasses import dataclass, field

import pytest

from effort import LONG
from simulate.random_clusters import RandomCluster
from simulate.real_clusters import World, done_for_real
from stowplan.api.catalogue import PODS
from stowplan.api.gates.feature_gates import gates_with
from stowplan.api.pod_groups import GATES
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.config import default_config
from stowplan.scheduler import Settings
from stowplan.simulate import Cluster
from stowplan.simulate.creation.manifests import ManifestReader, Manifests
from stowplan.simulate.fit import Fit, fit
from stowplan.simulate.outcome import Refusal
from stowplan.simulate.snapshot import Snapshot, read_cluster
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place

SEEDS = range(50 * LONG) if LONG else [*range(6), 219, 313, 379, 489, 1171, 2182]
"""Among them those that failed once: groups whose first members decide on the domain, groups that preempt,
and room of a quota that evictions give back."""
WAIT = 120
"""Seconds until it is looked at: less than the five minutes after which pods are retried without an event."""
SCHEDULER_SEED = 5
GROUP_GATES = gates_with(GATES)
_CLAIM = re.compile(r'"web-\S+-scratch"')
"""The name of a pod's claim, which has the random part of its name."""


@dataclass
class Done:
    """The cluster before the workload came, and what became of the workload."""

    before: Snapshot = field(default_factory=lambda: Snapshot([], ""))
    running: int = 0
    refused: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)


def done(made: RandomCluster) -> Done:
    """Create the workload in the cluster, and let a minute pass."""
    found = Done()

    async def story(world: World) -> None:
        world.create(*made.nodes, *made.surroundings)
        await asyncio.sleep(5)
        found.before = await read_cluster(world.client, "before")
        async with world.scheduler(SCHEDULER_SEED):
            for document in made.workload:
                try:
                    world.create(document)
                except ApiError as error:
                    found.refused.add(_reason(error.message))
                await asyncio.sleep(0)
            await asyncio.sleep(WAIT)
        pods = [
            one for one in world.store.list(PODS).items if not one["metadata"]["name"].startswith("other-")
        ]
        found.running = sum(1 for one in pods if one["status"].get("phase") == "Running")
        found.refused |= {_reason(str(event["note"])) for event in _refusals(world)}
        found.waiting = {_before_preemption(message) for message in world.messages()}

    done_for_real([], story, None, GROUP_GATES, kubelets=True)
    return found


def _runs(pod: Json) -> bool:
    """True for a pod of the workload that runs."""
    is_ours = not pod["metadata"]["name"].startswith("other-")
    return is_ours and pod["status"].get("phase") == "Running"


def _refusals(world: World) -> list[Json]:
    return [one for reason in ("FailedCreate", "FailedWorkloadCreate") for one in world.events(reason)]


def _reason(message: str) -> str:
    """What the API server says, without the name of the object."""
    return Refusal("", 1, message).reason


def _before_preemption(message: str) -> str:
    message = message.partition(" preemption:")[0].removesuffix(", pod group").removesuffix(".")
    return _CLAIM.sub("claim", message)


def said(made: RandomCluster, before: Snapshot) -> tuple[Fit | None, str]:
    """The answer of `fit`; or the refusal of an object that makes no pods."""
    reader = ManifestReader()
    for document in made.workload:
        reader.take_in(document, Place("app.yaml", ""))
    cluster = Cluster.load(before, settings=Settings.of(default_config(GROUP_GATES)), seed=SCHEDULER_SEED)
    manifests: Manifests = reader.found
    try:
        return fit(cluster, manifests, preempt=True, more=False), ""
    except SnapshotError as error:
        return None, str(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_replicas_run_as_fit_says(seed: int) -> None:
    made = RandomCluster(seed)
    really = done(made)
    answer, refusal = said(made, really.before)
    if answer is None:
        assert any(refusal.endswith(reason) for reason in really.refused)
        return
    [one] = answer.workloads
    assert one.replicas == really.running
    if one.stop is None:
        assert not really.waiting
        assert not really.refused
    elif one.stop.refused:
        assert one.stop.reason in really.refused
    elif one.outcome.evictions:
        # The message of a pod is as old as its last attempt: others may have gone and come since.
        assert really.waiting
    else:
        assert _before_preemption(one.stop.message) in really.waiting
