"""The simulator: the real engine on a cluster in memory, with changes that can be undone.

    from stowplan.simulate import Cluster

    cluster = Cluster.load("dump.yaml", seed=1)
    with cluster.fork():
        outcome = cluster.drain("node-7")
        print(outcome.moved, outcome.pending)

* `cluster`: the cluster; `snapshot/`: where it is loaded from
* `fit`, `whatif`, `capacity`, `plan` and their parts: the questions that the commands of these names answer
* `scenario/`: days in virtual time with the whole scheduler
* `shadow/`: comparing with the scheduler of a cluster; `replay_comparison`: recorded decisions under another
  configuration
"""

from typing import TYPE_CHECKING, Any

from stowplan.runtime.lazy import lazy_attribute

if TYPE_CHECKING:
    from stowplan.simulate.cluster import Cluster, NoSuchObjectError
    from stowplan.simulate.outcome import Eviction, Outcome

__all__ = ["Cluster", "Eviction", "NoSuchObjectError", "Outcome"]

_MODULES = {"Cluster": "cluster", "NoSuchObjectError": "cluster", "Eviction": "outcome", "Outcome": "outcome"}


def __getattr__(name: str) -> Any:
    """Load public names on first use: commands that only load a snapshot need no engine."""
    return lazy_attribute(__name__, name, _MODULES)
