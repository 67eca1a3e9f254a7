"""Arguments of InterPodAffinity."""

from stowplan.api.fielderrors import Path, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """How much required affinity of pods already placed attracts a pod, and whether preferences count."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        weight = self.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        return [invalid(path.child("hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]
