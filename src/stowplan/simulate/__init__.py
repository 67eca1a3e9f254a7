"""The simulator: the scheduler's engine on a cluster in memory, with changes that can be undone.

    from stowplan.simulate import Cluster

    cluster = Cluster.load("dump.yaml", seed=1)
    with cluster.fork():
        outcome = cluster.drain("node-7")
        print(outcome.moved, outcome.pending)

The host is `cluster` (what can be done and asked) over `contents` (one table with the profiles of a
configuration, and the objects in it) and `undo` (forks). Explanations of a dump,
`fit`, `whatif`, `capacity`, `plan`, the autoscaler of scenarios and `stowplan.testing.cluster()` use it.

* `snapshot/`: where its objects come from (an API server, dumps, snapshots, traces, shapes)
* `creation/`: objects of manifests, by the API server's admission and the functions of the controllers
* `fit`, `counting`, `capacity`, `whatif` (`changes`, `budgets`, `rollout`), `rebalance`, `measure`: questions
* `questions/`: the same questions at a running scheduler, for the page
* `experiments`, `results`: `simulate`, `compare` and `sweep` from Python, and what they give back
* `scenario/`: days in virtual time with the whole scheduler, and sweeps over them
* `shadow/`: comparing with the scheduler of a cluster, or with recorded decisions

It may import all packages but `testing`, `lab` and `cli`. Begin with `cluster.py`, then `fit.py`.
"""

from typing import TYPE_CHECKING, Any

from stowplan.runtime.lazy import lazy_attribute

if TYPE_CHECKING:
    from stowplan.simulate.cluster import Cluster
    from stowplan.simulate.contents import NoSuchObjectError
    from stowplan.simulate.experiments import compare, simulate, sweep
    from stowplan.simulate.outcome import Eviction, Outcome
    from stowplan.simulate.results import Comparison, Rows, Simulation, Sweep
    from stowplan.simulate.scenario.measures import Metric, Moment

__all__ = [
    "Cluster",
    "Comparison",
    "Eviction",
    "Metric",
    "Moment",
    "NoSuchObjectError",
    "Outcome",
    "Rows",
    "Simulation",
    "Sweep",
    "compare",
    "simulate",
    "sweep",
]

_MODULES = {
    "Comparison": "results",
    "Metric": "scenario.measures",
    "Moment": "scenario.measures",
    "Rows": "results",
    "Simulation": "results",
    "Sweep": "results",
    "compare": "experiments",
    "simulate": "experiments",
    "sweep": "experiments",
    "Cluster": "cluster",
    "NoSuchObjectError": "contents",
    "Eviction": "outcome",
    "Outcome": "outcome",
}


def __getattr__(name: str) -> Any:
    """Load public names on first use: commands that only load a snapshot need no engine."""
    return lazy_attribute(__name__, name, _MODULES)
