"""Looking over a scheduler's shoulder: at every attempt, and at every decision."""

from collections import Counter

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.chaos import rules
from stowplan.chaos.bindings import Bindings
from stowplan.chaos.oracle import Oracle, told_of
from stowplan.chaos.taken import Taken
from stowplan.chaos.world import World
from stowplan.cluster.podinfo import PodInfo
from stowplan.queue.queued import QueuedPod
from stowplan.scheduler import Scheduler


class Overseer:
    """Checks one scheduler whenever it takes a pod from its queue and whenever it decides for a node.

    When a pod is taken nothing is half done: that is when all books must agree.
    """

    def __init__(self, scheduler: Scheduler, number: int, world: World, bindings: Bindings) -> None:
        self.scheduler = scheduler
        self._number = number
        self._world = world
        self._bindings = bindings
        self._taken = Taken(world, scheduler.context.cache)
        self._told_nodes: dict[str, Node] = {}
        self._told_pods: dict[str, str] = {}
        context = scheduler.context
        self._pop = context.queue.pop
        self._assume = context.cache.assume
        setattr(context.queue, "pop", self.pop)  # noqa: B010 - a method in the place of another
        setattr(context.cache, "assume", self.assume)  # noqa: B010

    def pop(self) -> QueuedPod | None:
        queued = self._pop()
        if queued is None:
            return None
        self._world.counts["attempts"] += 1
        self._world.note(f"try {queued.key}")
        pods = self.scheduler.informers.pods.objects
        self._told_nodes = dict(self.scheduler.informers.nodes.objects)
        self._told_pods = {
            pod.metadata.uid: pod.spec.node_name for pod in pods.values() if pod.spec.node_name
        }
        self.check_places(queued.uid)
        self.check_cache()
        self._taken.check()
        return queued

    def assume(self, info: PodInfo, node: str) -> None:
        pod = info.pod
        told = self._told_nodes.get(node)
        on_node = {uid for uid, where in self._told_pods.items() if where == node}
        claims = self._bindings.claims
        for_one = claims.for_one(pod) if claims is not None else frozenset[str]()
        self._bindings.decide(
            self._number,
            pod,
            node,
            told,
            on_node,
            told_nodes=self._told_nodes.keys(),
            told_placed=self._told_pods.keys(),
            for_one=for_one,
        )
        if claims is not None and told is not None:
            claims.decide(pod, told)
        self._taken.decide(pod)
        self._check_decision(pod, node, told)
        self._assume(info, node)

    # Decisions

    def _check_decision(self, pod: Pod, node: str, told: Node | None) -> None:
        problem = "the node is not known" if told is None else rules.objection(pod, told)
        if problem is None and node not in self._second_opinion(pod):
            problem = "a fresh evaluation rejects the node"
        if problem is None and pod.spec.scheduling_gates:
            problem = "the pod is gated"
        if problem is not None:
            self._world.broken("no pod goes to a node that rejects it", f"{pod.key} to {node}: {problem}")

    def _second_opinion(self, pod: Pod) -> list[str]:
        cache = self.scheduler.context.cache
        placed = [
            (info.pod, cache.assumed.get(uid, info.pod.spec.node_name))
            for uid, info in cache.table.pods.items()
        ]
        oracle = Oracle(self.scheduler, cache.nodes(), placed)
        if self._world.plan.storage is not None:
            oracle.add_storage(told_of(cache.table.storage), cache.table.storage.assumed())
        return oracle.feasible(pod, in_bad_weather=True)

    # Books

    def check_places(self, popped: str = "") -> None:
        """Every pod that wants a node is waiting in the queue, or being tried or bound; not both."""
        context = self.scheduler.context
        queue, assumed = context.queue, context.cache.assumed
        for pod in self.scheduler.informers.pods.objects.values():
            if pod.spec.node_name or pod.is_terminating or pod.spec.scheduler_name not in context.profiles:
                continue
            uid = pod.metadata.uid
            queued = queue.get(pod.key)
            waits = queued is not None and queued.uid == uid
            tried = uid == popped or uid in assumed
            if waits == tried:
                where = "in the queue and being tried" if waits else "nowhere"
                self._world.broken("no pod is lost", f"{pod.key} is {where}")
            if queued is not None and queued.uid != uid:
                self._world.broken("no pod is lost", f"{pod.key} stands in the queue as a pod that is gone")
        self._check_queued()

    def _check_queued(self) -> None:
        places = Counter(one.key for one in self.scheduler.context.queue)
        for key, count in places.items():
            if count > 1:
                self._world.broken("no pod is lost", f"{key} is in {count} places of the queue")
            known = self.scheduler.pod(key)
            if known is None or known.spec.node_name:
                self._world.broken("no pod is lost", f"{key} is in the queue though it is bound or gone")

    def check_cache(self) -> None:
        """The cache has the pods that the API server told of, and those that are assumed."""
        cache = self.scheduler.context.cache
        table = cache.table
        for uid, node in self._told_pods.items():
            info = table.pods.get(uid)
            if info is None or info.pod.spec.node_name != node:
                self._world.broken("the cache follows the news", f"pod {uid} on {node} is not in the cache")
        for uid, info in table.pods.items():
            if uid not in self._told_pods and uid not in cache.assumed:
                self._world.broken("the cache follows the news", f"{info.key} is in the cache for no reason")
        names = {node.name for node in cache.nodes()}
        if names != self._told_nodes.keys():
            self._world.broken(
                "the cache follows the news", f"nodes {sorted(names ^ self._told_nodes.keys())}"
            )
