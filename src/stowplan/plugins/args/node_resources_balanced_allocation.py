"""Arguments of NodeResourcesBalancedAllocation."""

from typing import Self

from msgspec.structs import replace

from stowplan.api.fielderrors import Path, duplicate, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs
from stowplan.plugins.args.resource_spec import CPU_AND_MEMORY, ResourceSpec, complete_resources


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose use should be balanced; their weights can only be 1."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        return replace(self, resources=complete_resources(self.resources))

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        seen = set()
        for index, spec in enumerate(self.resources):
            where = path.child("resources").at(index)
            if spec.name in seen:
                errors.append(duplicate(where.child("name"), spec.name))
            seen.add(spec.name)
            if spec.weight != 1:
                errors.append(invalid(where.child("weight"), spec.weight, "must be 1"))
        return errors
