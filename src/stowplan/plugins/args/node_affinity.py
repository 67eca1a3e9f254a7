"""Arguments of NodeAffinity."""

from stowplan.api.fielderrors import Path
from stowplan.api.nodeselector import compile_term
from stowplan.api.pod import NodeAffinity
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that every pod of the profile has in addition to its own."""

    added_affinity: NodeAffinity | None = None

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        if self.added_affinity is None:
            return []
        errors: list[str] = []
        where = path.child("addedAffinity")
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            list_path = where.child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
            for index, term in enumerate(required.node_selector_terms):
                errors += compile_term(term, list_path.at(index)).errors
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        list_path = where.child("preferredDuringSchedulingIgnoredDuringExecution")
        for index, weighted in enumerate(preferred or ()):
            if weighted.weight:
                errors += compile_term(weighted.preference, list_path.at(index)).errors
        return errors
