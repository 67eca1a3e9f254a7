"""If something happens that lets a waiting pod run, some plugin that rejected it says so."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from releases import GATES_1_36, GATES_1_37
from scheduler.plugins.hint_clusters import ZONE, Change, Maker, World
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.releases import Release
from stowplan.config.build import default_profile
from stowplan.scheduler.framework.evaluation import rejectors_of
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    ClusterEvent,
    build_hint_map,
)
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.interpodaffinity.plugin import REASON_AFFINITY, REASON_EXISTING
from stowplan.scheduler.plugins.podtopologyspread.plugin import REASON_SKEW
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.queue.cluster_events import UpdateEvents
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.requeue import worth_requeuing
from stowplan.scheduler.queue.sub_queues import Strategy
from stowplan.scheduler.table.table import ClusterTable, load
from stowplan.testing import node, pod

REGISTRY = in_tree_registry()
CHANGES_PER_WORLD = 6


def events_of(change: Change, gates: FeatureGates) -> list[ClusterEvent]:
    events = UpdateEvents(gates)
    match change.old, change.new:
        case Node() as old, Node() as new:
            return events.of_node(old, new)
        case Pod() as old, Pod() as new:
            return events.of_pod(old, new, is_target=change.own)
        case None, Node():
            return [NODE_ADD]
        case Node(), None:
            return [NODE_DELETE]
        case None, Pod():
            return [ASSIGNED_POD_ADD]
    return [ASSIGNED_POD_DELETE]


class Helped(NamedTuple):
    """Something that happened and lets the pod run."""

    world: World
    change: Change
    reasons: tuple[str, ...]
    woken: bool


def things_that_help(world: World, changes: Iterable[Change], gates: FeatureGates) -> Iterator[Helped]:
    """Those changes that let the waiting pod of a world run, and whether it was woken."""
    table = ClusterTable(gates.release)
    load(table, [*world.nodes.values(), *world.running.values()])
    framework = Framework(default_profile(gates), table, REGISTRY, gates)
    before = framework.evaluate(table.info(world.waiting))
    if before.feasible_count:
        return
    rejectors, reasons = rejectors_of(before), tuple(sorted(before.reason_counts()))
    hints = build_hint_map(framework.plugins.values(), gates)
    for change in changes:
        change.happen(table)
        now = change.new if change.own else world.waiting
        assert isinstance(now, Pod)
        queued = QueuedPod(table.info(now), 0.0)
        queued.unschedulable_plugins = rejectors.unschedulable
        if framework.evaluate(queued.pod).feasible_count:
            verdicts = [
                worth_requeuing(hints, queued, event, change.old, change.new)
                for event in events_of(change, gates)
            ]
            woken = any(verdict is not Strategy.SKIP for verdict in verdicts)
            yield Helped(world, change, reasons, woken)
        change.undo(table)


def is_blind_spot(found: Helped) -> bool:
    """True if kube-scheduler's hints would not wake the pod either; each case has a test below."""
    waiting, change = found.world.waiting, found.change
    about_nodes = isinstance(change.old or change.new, Node)
    if about_nodes and REASON_EXISTING in found.reasons:
        return True
    if about_nodes and REASON_SKEW in found.reasons and change.old is not None:
        return waiting.spec.node_selector is not None
    return REASON_AFFINITY in found.reasons and change.old is not None and wants_its_own_kind(waiting)


def wants_its_own_kind(waiting: Pod) -> bool:
    near = waiting.spec.affinity and waiting.spec.affinity.pod_affinity
    terms = near.required_during_scheduling_ignored_during_execution if near else ()
    wanted = [term.label_selector.match_labels for term in terms if term.label_selector is not None]
    return bool(wanted) and all(labels.items() <= waiting.metadata.labels.items() for labels in wanted)


@pytest.mark.parametrize("seeds", [range(first, first + 300) for first in (0, 300)], ids=str)
def test_a_pod_that_can_run_now_is_tried_again(seeds: range, each_release: Release) -> None:
    gates = FeatureGates(release=each_release)
    count = 0
    for seed in seeds:
        maker = Maker(seed)
        world = maker.world()
        changes = (maker.change(world) for _ in range(CHANGES_PER_WORLD))
        for found in things_that_help(world, changes, gates):
            count += 1
            assert found.woken or is_blind_spot(found), f"seed {seed}: {found}"
    assert count > 50


TWO_NODES = {name: node(name).zone("z").obj() for name in ("a", "b")}
HATES_WEB = pod("r").labels(app="hermit").anti_affinity(ZONE, {"app": "web"}).on("a").obj()
WEB = pod("p").labels(app="web")
AMONG_HERMITS = World(TWO_NODES, {"r": HATES_WEB}, WEB.obj())

FAR, NEAR = node("far").zone("y").obj(), node("near").zone("z").labels(disk="ssd").obj()
FRIEND = pod("r").labels(app="web").on("far").obj()
CLINGY = WEB.affinity(ZONE, {"app": "web"}).node_selector(disk="ssd").obj()
ATTACHED = World({"far": FAR, "near": NEAR}, {"r": FRIEND}, CLINGY)

SHY = WEB.anti_affinity(ZONE, {"app": "a"}).anti_affinity(ZONE, {"app": "b"}).obj()
A_NEIGHBOUR = pod("r").labels(app="a").on("a").obj()

FULL = node("a").zone("y").labels(disk="ssd")
CLOSED = node("b").zone("z").labels(disk="ssd").unschedulable()
EVEN = WEB.spread(ZONE).node_selector(disk="ssd").obj()
UNEVEN = World({"a": FULL.obj(), "b": CLOSED.obj()}, {"r": pod("r").labels(app="web").on("a").obj()}, EVEN)


@pytest.mark.parametrize(
    ("world", "change"),
    [
        pytest.param(AMONG_HERMITS, Change(None, FAR), id="a new node far from a pod that wants to be alone"),
        pytest.param(
            AMONG_HERMITS,
            Change(TWO_NODES["b"], node("b").zone("y").obj()),
            id="a node that moves away from a pod that wants to be alone",
        ),
        pytest.param(
            ATTACHED,
            Change(FRIEND, None),
            id="the last pod goes that the waiting pod wants to be near, which makes it the first",
        ),
        pytest.param(
            ATTACHED,
            Change(FRIEND, pod("r").labels(app="db").on("far").obj()),
            id="the last pod changes that the waiting pod wants to be near",
        ),
        pytest.param(
            ATTACHED,
            Change(FAR, node("far").obj()),
            id="the node of the last pod that the waiting pod wants to be near leaves its zone",
        ),
        pytest.param(
            UNEVEN,
            Change(CLOSED.obj(), CLOSED.labels(disk="hdd").obj()),
            id="a node no longer counts for spreading because the waiting pod does not want it",
        ),
    ],
)
def test_blind_spots_that_kube_scheduler_has_too(world: World, change: Change, each_release: Release) -> None:
    [found] = things_that_help(world, [change], FeatureGates(release=each_release))
    assert not found.woken


@pytest.mark.parametrize(("gates", "woken"), [(GATES_1_36, False), (GATES_1_37, True)])
def test_a_pod_goes_that_one_of_several_terms_kept_the_waiting_pod_away_from(
    gates: FeatureGates, woken: bool
) -> None:
    world = World(TWO_NODES, {"r": A_NEIGHBOUR}, SHY)
    [found] = things_that_help(world, [Change(A_NEIGHBOUR, None)], gates)
    assert found.woken is woken
