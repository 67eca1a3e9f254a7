"""Arguments of DefaultPreemption."""

from stowplan.api.fielderrors import Path, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """How many nodes a preemption tries: the larger of a share of all nodes and a fixed number."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path = path.child("minCandidateNodesPercentage")
        absolute_path = path.child("minCandidateNodesAbsolute")
        errors: list[str] = []
        if not 0 <= percentage <= 100:
            errors.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            errors.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
        if percentage == 0 and absolute == 0:
            also = "cannot be zero at the same time as "
            errors.append(invalid(percentage_path, percentage, also + "minCandidateNodesAbsolute"))
            errors.append(invalid(absolute_path, absolute, also + "minCandidateNodesPercentage"))
        return errors
