"""Made-up features that nodes declare: upstream's benchmark of NodeDeclaredFeatures adds them in Go.

The parameter `numNodeDeclaredFeatures` of a workload is their number. Every node declares all of them, and a
pod with pod-level resources, as all pods of that benchmark have them, needs all of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stowplan.api.pod import PodSpec
from stowplan.lab.bench.perf.definitions import Benchmark
from stowplan.scheduler import Settings
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from stowplan.scheduler.plugins.registry import IN_TREE

GATE: Final = "NodeDeclaredFeatures"
_PARAMETER: Final = "numNodeDeclaredFeatures"


def made_up_features(benchmark: Benchmark) -> Sequence[str]:
    """The features that the nodes of a workload declare."""
    count = benchmark.workload.params.get(_PARAMETER, 0) if benchmark.feature_gates.get(GATE) else 0
    return sorted(f"Feature{number}" for number in range(1, count + 1))


def needing(settings: Settings, features: Sequence[str]) -> Settings:
    """Settings with which pods that have resources of their own need these features."""
    if not features:
        return settings
    needed = frozenset(features)

    class Needing(NodeDeclaredFeatures):
        name = GATE

        def _required(self, spec: PodSpec) -> frozenset[str]:
            return frozenset() if spec.resources is None else needed

    return replace(settings, registry=Registry({**IN_TREE, GATE: Needing}))
