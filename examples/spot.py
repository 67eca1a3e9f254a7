"""Spot: a plugin by node. Interruptible pods prefer spot nodes, all others are kept off them.

Run it: python examples/spot.py
"""

from stowplan.explain import explain
from stowplan.framework import Action, ClusterEvent, EventRegistration, Plugin, Resource, unresolvable

LABEL = "example.com/spot"
ANNOTATION = "example.com/interruptible"


def is_spot(node):
    return node.labels.get(LABEL) == "true"


def is_interruptible(pod):
    return pod.annotations.get(ANNOTATION) == "true"


class Spot(Plugin):
    def filter_node(self, cycle, pod, node):
        if is_spot(node) and not is_interruptible(pod):
            return unresolvable("node(s) were spot instances")
        return None

    def score_node(self, cycle, pod, node):
        return 100 if is_spot(node) else 0

    def events(self):
        """A pod that was rejected is retried when a node is added or changes its labels."""
        return [EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL))]


def main():
    from stowplan.testing import cluster, node, pod

    c = cluster(nodes=[node("spot").labels({LABEL: "true"}), node("on-demand")], plugins=[Spot])
    print(explain(c.decide(pod("report").annotations({ANNOTATION: "true"}))))
    print(explain(c.decide(pod("database"))))


if __name__ == "__main__":
    main()
