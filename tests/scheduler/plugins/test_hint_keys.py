"""Declarations of plugins' hints hold.

Hints that ignore labels give one answer for any labels of the waiting pod, and an event that has none of its
keys does not help it.
"""

from collections import Counter
from collections.abc import Collection, Hashable

from msgspec.structs import replace

from scheduler.plugins.hint_clusters import Maker
from scheduler.plugins.test_hints_lose_nothing import CHANGES_PER_WORLD, REGISTRY, events_of
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod
from stowplan.api.releases import Release
from stowplan.config.build import default_profile
from stowplan.scheduler.framework.events import Hint, Registered, build_hint_map
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable, load
from stowplan.testing import pod


def _distinct(keys: Collection[Hashable] | None) -> tuple[Hashable, ...]:
    return tuple(dict.fromkeys(keys or ()))


def relabelled(waiting: Pod, **labels: str) -> Pod:
    return replace(waiting, metadata=replace(waiting.metadata, labels=labels))


def says_no(entry: Registered, waiting: PodInfo, old: object, new: object) -> bool:
    """True if a pod and an event have no keys in common."""
    if entry.keys is None:
        return False
    offered = entry.keys.of_event(old, new)
    wanted = entry.keys.of_pod(waiting)
    return offered is not None and wanted is not None and not set(offered) & set(wanted)


def test_hints_keep_to_what_they_say_of_themselves(each_release: Release) -> None:
    gates = FeatureGates(release=each_release)
    counts: Counter[str] = Counter()
    for seed in range(400):
        maker = Maker(seed)
        world = maker.world()
        table = ClusterTable(gates.release)
        load(table, [*world.nodes.values(), *world.running.values()])
        framework = Framework(default_profile(gates), table, REGISTRY, gates)
        hints = build_hint_map(framework.plugins.values(), gates)
        waiting = table.info(world.waiting)
        others = [
            table.info(relabelled(world.waiting, **labels)) for labels in ({}, {"app": "a"}, {"app": "b"})
        ]
        for _ in range(CHANGES_PER_WORLD):
            change = maker.change(world)
            if change.own:
                continue
            old, new = change.old, change.new
            for event in events_of(change, gates):
                for entries in hints.matching(event).values():
                    for entry in entries:
                        answer = entry.ask(waiting, old, new)
                        if says_no(entry, waiting, old, new):
                            assert answer.hint is Hint.SKIP, (seed, entry.plugin, change)
                            counts["no keys in common"] += 1
                        if entry.is_blind(waiting, old, new):
                            same = [entry.ask(other, old, new) for other in others]
                            assert same == [answer] * 3, (seed, entry.plugin, change)
                            counts[f"labels ignored, {answer.hint.value}"] += 1
                        elif entry.hint is not None:
                            counts["labels count"] += 1
    assert min(counts.values()) > 20, counts
    assert len(counts) == 4


def test_a_pod_with_a_selector_that_no_single_label_is_needed_for_may_be_helped_by_any(
    each_release: Release,
) -> None:
    gates = FeatureGates(release=each_release)
    framework = Framework(default_profile(gates), ClusterTable(gates.release), REGISTRY, gates)
    [keys] = build_hint_map(framework.plugins.values(), gates).keys_of("InterPodAffinity")
    plain = pod("p").affinity("zone", {"app": "a"})
    info = framework.table.info
    assert _distinct(keys.of_pod(info(plain.obj()))) == ((True, ("app", "a")),)
    both = plain.anti_affinity("zone", {"app": "b"})
    assert _distinct(keys.of_pod(info(both.obj()))) == ((True, ("app", "a")), (False, ("app", "b")))
    assert keys.of_pod(info(plain.anti_affinity("zone", {}).obj())) is None
    gone = pod("gone").labels(app="a").on("n")
    assert keys.of_event(gone.obj(), None) == [(False, ("app", "a"))]
    assert keys.of_event(gone.anti_affinity("zone", {"app": "b"}).obj(), None) is None
