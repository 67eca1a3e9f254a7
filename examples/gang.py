"""Gang: a Permit plugin. The pods of a gang are bound together or not at all.

A pod joins a gang by the label `example.com/gang` and gives the size in `example.com/gang-size`. Its node is
reserved while it waits at Permit. The last member releases all of them. After a minute without it the nodes
are given back, and the pods are retried when another member reaches Permit.

Run it: python examples/gang.py
"""

import asyncio
from random import Random

from stowplan.framework import Plugin, Wait

GANG = "example.com/gang"
SIZE = "example.com/gang-size"
TIMEOUT = 60


class Gang(Plugin):
    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.members = {}

    def permit(self, cycle, pod, node):
        gang = pod.labels.get(GANG)
        if gang is None:
            return None
        gang = (pod.namespace, gang)
        scheduler = self.handle.scheduler
        # Members with a node: this one, those that wait here, and those that were bound before a restart.
        placed = [other for other in self.handle.table.pods.values() if gang_of(other) == gang]
        waiting = [other for other in scheduler.waiting if gang_of(other.pod) == gang]
        if len({pod.uid, *(other.uid for other in placed)}) >= int(pod.labels.get(SIZE, 1)):
            self.members.pop(gang, None)
            for other in waiting:
                other.allow(self.name)
            return None
        known = {key: scheduler.pod(key) for key in self.members.get(gang, ())}
        at_permit = {other.pod.key for other in waiting}
        scheduler.activate(member for key, member in known.items() if member and key not in at_permit)
        self.members[gang] = {pod.key, *(key for key, member in known.items() if member)}
        return Wait(TIMEOUT)

    def drop_stale(self):
        """Forget gangs whose pods are gone. A scheduler calls this now and then."""
        pod = self.handle.scheduler.pod
        self.members = {gang: keys for gang, keys in self.members.items() if any(map(pod, keys))}

    def events(self):
        """No event helps: members that timed out are activated by the next one."""
        return []


def gang_of(pod):
    return pod.namespace, pod.labels.get(GANG)


def main():
    from msgspec import to_builtins

    from stowplan.api.catalogue import NODES, PODS
    from stowplan.config import load
    from stowplan.localcluster.client import InProcessClient
    from stowplan.localcluster.store import Store
    from stowplan.runtime.clock import run
    from stowplan.scheduler import Scheduler, Settings
    from stowplan.testing import node, pod

    config = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - plugins:
            multiPoint:
              enabled: [{name: Gang}]
        """

    async def story(clock):
        store = Store(clock, Random(1))
        store.create(NODES, to_builtins(node("n").obj()))
        scheduler = Scheduler(
            InProcessClient(store), Settings.of(load(config), [Gang]), clock=clock, rng=Random(2)
        )
        member = {GANG: "training", SIZE: "3"}

        def states():
            return {
                name: scheduler.explain(f"default/{name}").state.place
                for name in ("worker-0", "worker-1", "worker-2")
                if scheduler.pod(f"default/{name}") is not None
            }

        async with scheduler.running():
            for name in ("worker-0", "worker-1"):
                store.create(PODS, to_builtins(pod(name).labels(member).obj()))
            await asyncio.sleep(1)
            print("two of three:", states())
            await asyncio.sleep(TIMEOUT)
            print("a minute later:", states())
            store.create(PODS, to_builtins(pod("worker-2").labels(member).obj()))
            await asyncio.sleep(20)
            print("all three:", states())

    run(story)


if __name__ == "__main__":
    main()
