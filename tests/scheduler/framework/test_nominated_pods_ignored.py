"""Filters that ignore the pods nominated to a node are not asked with these on it: the result is the same."""

from random import Random

import pytest

from scheduler.plugins.volume_objects import claim, csi_node, csi_volume, using
from stowplan.api.meta import Object
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.nominations import NominatedRows
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import Cluster, PodBuilder, cluster, node, pod

NODES = 4
CLAIMS = 8


def world_of(rng: Random) -> Cluster:
    """Nodes some of which limit volumes, with room for a few pods."""
    objects: list[Object] = []
    for number in range(CLAIMS):
        objects += [csi_volume(f"pv-{number}"), claim(f"c{number}", f"pv-{number}")]
    for number in range(0, NODES, 2):
        objects.append(csi_node(f"n{number}", disk=rng.randint(0, 2)))
    return cluster(nodes=[node(f"n{number}").capacity(cpu=6) for number in range(NODES)], objects=objects)


def any_pod(rng: Random, name: str) -> PodBuilder:
    made = using(name, f"c{rng.randrange(CLAIMS)}") if rng.random() < 0.6 else pod(name)
    if rng.random() < 0.4:
        made = made.port(80, host_port=80)
    if rng.random() < 0.2:
        made = made.labels(app="x")
    if rng.random() < 0.2:
        made = made.anti_affinity("kubernetes.io/hostname", {"app": "x"})
    return made.requests(cpu=rng.randint(1, 3)).priority(rng.choice([0, 5]))


def nominated(world: Cluster, pods: dict[int, list[PodBuilder]]) -> dict[int, list[PodInfo]]:
    return {row: [world.table.info(one.obj()) for one in some] for row, some in pods.items()}


def said(framework: Framework, asking: PodBuilder, nominations: NominatedRows) -> object:
    evaluation = framework.evaluate(framework.table.info(asking.obj()), nominations)
    return [evaluation.status(row) for row in range(NODES)], evaluation.feasible_rows.tolist()


@pytest.mark.parametrize("seed", range(40))
def test_it_is_as_if_they_had_been_put_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    world = world_of(rng)
    table, keeping = world.table, world.frameworks["default-scheduler"]
    trying = Framework(keeping.profile, table, in_tree_registry(), reuse=False)
    nominations = NominatedRows(nominated(world, {0: [any_pod(rng, "first")]}))
    asking = any_pod(rng, "asking")
    for step in range(12):
        change = rng.randrange(4)
        if change == 0:
            table.put_pod(any_pod(rng, f"there-{step}").on(f"n{rng.randrange(NODES)}").obj())
        elif change == 1 and table.pods:
            table.remove_pod(rng.choice(sorted(table.pods)))
        elif change == 2:
            some = [any_pod(rng, f"nominated-{step}-{more}") for more in range(rng.randrange(3))]
            nominations = nominations.replaced(nominated(world, {rng.randrange(NODES): some}))
        else:
            asking = any_pod(rng, f"asking-{step}")
        found = said(keeping, asking, nominations)
        with monkeypatch.context() as plain:
            for plugin in trying.plugins.values():
                plain.setattr(type(plugin), "ignores_pods", Plugin.ignores_pods)
            assert found == said(trying, asking, nominations)
