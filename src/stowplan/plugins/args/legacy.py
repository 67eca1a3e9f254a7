"""What arguments of plugins of earlier releases have in common."""

from stowplan.api.fielderrors import Path, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs

OLD_MAX_PRIORITY = 10
"""The best score a priority could give a node up to Kubernetes 1.16."""

MAX_PRIORITY = 100
"""The best score since."""


class LegacyArgs(PluginArgs, frozen=True, forbid_unknown_fields=True):
    """Arguments of a plugin that kube-scheduler no longer has.

    They are read when the plugin is made, not with the configuration, so an unknown field is refused here.
    """

    api_version: str = ""
    kind: str = ""

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        expected = type(self).__name__
        if self.kind in ("", expected):
            return []
        return [invalid(path.child("kind"), self.kind, f"must be {expected}")]


class PriorityArgs(LegacyArgs, frozen=True):
    """Arguments of a plugin that was a priority.

    `max_priority` is the best score of the release that is meant, 10 or 100. Rules that round are rounded on
    that scale; a point on the old scale then counts ten, so that the best score is 100 either way.
    """

    max_priority: int = MAX_PRIORITY

    @property
    def unit(self) -> int:
        """What a point on the scale of these arguments counts."""
        return MAX_PRIORITY // self.max_priority

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors = super().validate(path, gates)
        if self.max_priority not in (OLD_MAX_PRIORITY, MAX_PRIORITY):
            detail = f"must be {OLD_MAX_PRIORITY} or {MAX_PRIORITY}"
            errors.append(invalid(path.child("maxPriority"), self.max_priority, detail))
        return errors


class BalancedResourceAllocationArgs(PriorityArgs, frozen=True):
    """Arguments of BalancedResourceAllocation."""


class NodeResourceLimitsArgs(PriorityArgs, frozen=True):
    """Arguments of NodeResourceLimits."""


class EqualPriorityArgs(PriorityArgs, frozen=True):
    """Arguments of EqualPriority."""
