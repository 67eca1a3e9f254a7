"""RackDistance: PlacementGenerate and PlacementScore. A gang goes to two racks that are close to each other.

Nodes say in `example.com/rack` in which rack they are, as `row/rack`: racks of one row share a switch. Every
pair of racks is a placement; the fewer hops there are between the nodes that the pods get, the better.

Run it: python examples/rack_distance.py
"""

import asyncio
from itertools import combinations, product
from random import Random

import numpy as np

from stowplan.framework import Plugin
from stowplan.framework.advanced import Placement

RACK = "example.com/rack"


class RackDistance(Plugin):
    def generate_placements(self, cycle, group, parent):
        racks = {}
        for row in parent.rows_of(cycle.table):
            rack = cycle.table.nodes[row].metadata.labels.get(RACK)
            racks.setdefault(rack, []).append(row)
        pairs = combinations(sorted(filter(None, racks)), 2)
        return [Placement(f"{a}+{b}", np.array(racks[a] + racks[b])) for a, b in pairs]

    def score_placement(self, cycle, group, placement):
        used = {cycle.table.nodes[row].metadata.labels[RACK] for row in placement.rows}
        hops = [self.hops(one, other) for one, other in product(used, used)]
        return 100 - 25 * sum(hops) // len(hops)

    @staticmethod
    def hops(one, other):
        """None within a rack, two through the switch of a row, four through that of the hall."""
        return 0 if one == other else 2 if one.split("/")[0] == other.split("/")[0] else 4


def main():
    from msgspec import to_builtins

    from stowplan.api.catalogue import NODES, POD_GROUPS, PODS
    from stowplan.api.gates.feature_gates import FeatureGates
    from stowplan.api.releases import release
    from stowplan.config import load
    from stowplan.localcluster.client import InProcessClient
    from stowplan.localcluster.store import Store
    from stowplan.runtime.clock import run
    from stowplan.scheduler import Scheduler, Settings
    from stowplan.testing import node, pod
    from stowplan.testing.groups import pod_group

    config = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - plugins:
            placementGenerate:
              disabled: [{name: TopologyPlacementGenerator}]
            multiPoint:
              enabled: [{name: RackDistance, weight: 10}]
        """
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}

    async def story(clock):
        store = Store(clock, Random(1))
        for rack in ("east/1", "west/1", "west/2"):
            for number in range(2):
                name = f"{rack.replace('/', '-')}-{number}"
                store.create(NODES, to_builtins(node(name).labels({RACK: rack}).obj()))
        settings = Settings.of(load(config, FeatureGates(gates, release("1.37"))), [RackDistance])
        scheduler = Scheduler(InProcessClient(store), settings, clock=clock, rng=Random(2))
        async with scheduler.running():
            store.create(POD_GROUPS, to_builtins(pod_group("training", min_count=4)))
            for number in range(4):
                worker = to_builtins(pod(f"worker-{number}").requests(cpu="3").obj())
                worker["spec"]["schedulingGroup"] = {"podGroupName": "training"}
                store.create(PODS, worker)
            await asyncio.sleep(1)
            for number in range(4):
                print(store.get(PODS, "default", f"worker-{number}")["spec"].get("nodeName"))

    run(story)


if __name__ == "__main__":
    main()
