"""For tests of plugins, ours and yours: objects in one line, and a cluster without a cluster.

    from stowplan.testing import cluster, node, pod

    c = cluster(nodes=[node("a").taint("gpu"), node("b")])
    assert c.schedule(pod("p").requests(cpu="100m")).node == "b"

Builders never change: every method returns a new one, so a half-finished pod can be kept and varied.
"""

from stowplan.testing.builders import NodeBuilder, PodBuilder, node, pod
from stowplan.testing.clusters import Cluster, cluster

__all__ = ["Cluster", "NodeBuilder", "PodBuilder", "cluster", "node", "pod"]
