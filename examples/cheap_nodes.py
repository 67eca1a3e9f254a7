"""CheapNodes: a plugin by node. Cheap nodes first, dearer ones when the cheap ones are full.

The price of a node is its label `example.com/price`. Every node that fits remains possible, so a pod falls
back to a dearer one. A pod with the annotation `example.com/max-price` does so only up to that price.

Run it: python examples/cheap_nodes.py
"""

from stowplan.framework import Action, ClusterEvent, EventRegistration, Plugin, Resource, unresolvable

PRICE = "example.com/price"
MAX_PRICE = "example.com/max-price"


class CheapNodes(Plugin):
    def filter_node(self, cycle, pod, node):
        limit = pod.annotations.get(MAX_PRICE)
        if limit is not None and price_of(node) > float(limit):
            return unresolvable("node(s) cost too much")
        return None

    def score_node(self, cycle, pod, node):
        """The price in cents: any scale will do, because `normalize` follows."""
        return round(100 * price_of(node))

    def normalize(self, cycle, pod, scores, extremes):
        """100 for the cheapest feasible node, 0 for the dearest."""
        low, high = extremes
        return 100 - 100 * (scores - low) // max(high - low, 1)

    def events(self):
        """A rejected pod is retried when a node comes or changes its labels, and when a pod goes."""
        return [
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventRegistration(ClusterEvent(Resource.POD, Action.DELETE)),
        ]


def price_of(node):
    return float(node.labels.get(PRICE, 0))


def main():
    from stowplan.testing import cluster, node, pod

    c = cluster(
        nodes=[
            node("spot").capacity(cpu="2").labels({PRICE: "0.3"}),
            node("on-demand").capacity(cpu="4").labels({PRICE: "1.0"}),
        ],
        config=CONFIG,
        plugins=[CheapNodes],
    )
    for number in range(3):
        print(f"web-{number}: {c.schedule(pod(f'web-{number}').requests(cpu='1')).node}")
    limited = c.schedule(pod("batch").requests(cpu="1").annotations({MAX_PRICE: "0.5"}))
    print(f"batch: {limited.message}")


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: CheapNodes
        weight: 10
"""


if __name__ == "__main__":
    main()
