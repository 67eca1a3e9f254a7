"""Small random clusters with a pod that waits, and things that happen to them."""

from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, node, pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
FEATURE = "UserNamespacesHostNetworkSupport"
TOLERATIONS = ("gpu", "down", "node.kubernetes.io/unschedulable")


@dataclass
class World:
    """Nodes by name, running pods by name, and the pod that waits."""

    nodes: dict[str, Node]
    running: dict[str, Pod]
    waiting: Pod


@dataclass
class Change:
    """One object before and after; `own`: it is the waiting pod."""

    old: Node | Pod | None
    new: Node | Pod | None
    own: bool = False

    def happen(self, table: ClusterTable) -> None:
        if not self.own:
            _replace(table, self.old, self.new)

    def undo(self, table: ClusterTable) -> None:
        if not self.own:
            _replace(table, self.new, self.old)


def _replace(table: ClusterTable, old: Node | Pod | None, new: Node | Pod | None) -> None:
    match old, new:
        case _, Node():
            table.put_node(new)
        case _, Pod():
            table.put_pod(new)
        case Node(), _:
            table.remove_node(old.name)
        case Pod(), _:
            table.remove_pod(old.metadata.uid)


@dataclass
class Maker:
    """Makes everything from one seed."""

    seed: int
    rng: Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)

    def rarely(self) -> bool:
        return self.rng.random() < 0.25

    def one(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def key(self) -> str:
        return self.one(ZONE, ZONE, HOSTNAME)

    def world(self) -> World:
        names = [f"n{n}" for n in range(self.rng.randint(1, 3))]
        running = {
            f"r{n}": self.load(f"r{n}").on(self.one(*names)).obj() for n in range(self.rng.randint(0, 3))
        }
        return World({name: self.node(name) for name in names}, running, self.waiting())

    def node(self, name: str) -> Node:
        made = node(name).capacity(cpu=self.rng.randint(1, 3), pods=self.rng.choice([1, 2, 9]))
        if self.rng.random() < 0.8:
            made = made.zone(self.one("a", "b", "b"))
        if self.rarely():
            made = made.labels(disk=self.one("ssd", "hdd"))
        if self.rarely():
            made = made.taint(self.one("gpu", "down"))
        if self.rarely():
            made = made.unschedulable()
        if self.rarely():
            made = made.features(FEATURE)
        return made.obj()

    def load(self, name: str) -> PodBuilder:
        """Requests and labels of a pod, wherever it runs."""
        made = pod(name).labels(app=self.one("a", "b"))
        if self.rarely():
            made = made.labels(tier="x")
        if self.rng.random() < 0.5:
            made = made.requests(cpu=self.rng.randint(1, 2))
        if self.rarely():
            made = made.port(80, host_port=self.rng.choice([80, 81]))
        if self.rarely():
            made = made.anti_affinity(self.key(), {"app": self.one("a", "b")})
        return made

    def waiting(self) -> Pod:
        made = self.load("p")
        if self.rarely():
            made = made.node_selector(disk=self.one("ssd", "hdd"))
        if self.rarely():
            made = made.tolerates(self.one(*TOLERATIONS))
        if self.rarely():
            made = made.affinity(self.key(), {"app": self.one("a", "b")})
        if self.rng.random() < 0.5:
            made = made.spread(
                self.key(),
                {"app": self.one("a", "b")},
                min_domains=self.rng.choice([None, None, 2]),
                node_taints_policy=self.rng.choice([None, "Honor"]),
                node_affinity_policy=self.rng.choice([None, "Ignore"]),
            )
        if self.rarely():
            made = made.spec(host_network=True, host_users=False)
        return made.obj()

    def change(self, world: World) -> Change:
        """A node or a pod comes, goes or changes; or the waiting pod does."""
        kinds = [self._new_node, self._changed_node, self._changed_node, self._new_pod, self._changed_itself]
        if len(world.nodes) > 1 and self._empty(world):
            kinds.append(self._lost_node)
        if world.running:
            kinds += [self._lost_pod, self._lost_pod, self._changed_pod]
        return self.rng.choice(kinds)(world)

    def _new_node(self, world: World) -> Change:
        return Change(None, self.node("new"))

    def _changed_node(self, world: World) -> Change:
        old = world.nodes[self.one(*world.nodes)]
        new = self.node(old.name)
        part = self.one("labels", "spec", "status", "all")
        if part == "labels":
            new = replace(old, metadata=new.metadata)
        elif part != "all":
            new = replace(old, **{part: getattr(new, part)})
        return Change(old, new)

    def _lost_node(self, world: World) -> Change:
        return Change(world.nodes[self.one(*self._empty(world))], None)

    def _new_pod(self, world: World) -> Change:
        return Change(None, self.load("new").on(self.one(*world.nodes)).obj())

    def _lost_pod(self, world: World) -> Change:
        return Change(world.running[self.one(*world.running)], None)

    def _changed_pod(self, world: World) -> Change:
        old = world.running[self.one(*world.running)]
        return Change(old, self._update(old))

    def _changed_itself(self, world: World) -> Change:
        return Change(world.waiting, self._update(world.waiting), own=True)

    def _update(self, old: Pod) -> Pod:
        """Possible changes of a pod: labels, requests, and more tolerations."""
        what = self.one("labels", "requests", "tolerations")
        if what == "labels":
            return replace(old, metadata=replace(old.metadata, labels={"app": self.one("a", "b")}))
        if what == "requests":
            return PodBuilder(old).requests(cpu=self.one("100m", "1", "2")).obj()
        return PodBuilder(old).tolerates(self.one(*TOLERATIONS)).obj()

    @staticmethod
    def _empty(world: World) -> list[str]:
        taken = {each.spec.node_name for each in world.running.values()}
        return [name for name in world.nodes if name not in taken]
