"""The simulator as a library: the real engine on a cluster in memory, with changes that can be taken back.

from stowplan.simulate import Cluster

cluster = Cluster.load("dump.yaml", seed=1)
with cluster.fork():
    outcome = cluster.drain("node-7")
    print(outcome.moved, outcome.pending)
"""

from stowplan.simulate.cluster import Cluster, NoSuchObjectError
from stowplan.simulate.outcome import Eviction, Outcome

__all__ = ["Cluster", "Eviction", "NoSuchObjectError", "Outcome"]
