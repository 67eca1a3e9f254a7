"""Arguments of the plugins that score nodes by their resources the way earlier releases did."""

from typing import Self

from msgspec.structs import replace

from stowplan.api.fielderrors import Path, duplicate, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.legacy import PriorityArgs
from stowplan.plugins.args.resource_spec import CPU_AND_MEMORY, ResourceSpec, complete_resources
from stowplan.plugins.args.shape import MAX_SHAPE_SCORE, UtilizationShapePoint, validate_shape

FREE_IS_BETTER = (
    UtilizationShapePoint(utilization=0, score=MAX_SHAPE_SCORE),
    UtilizationShapePoint(utilization=100, score=0),
)
"""The shape where none is given: the emptier a node, the better."""


class OldAllocationArgs(PriorityArgs, frozen=True):
    """The resources that count, and how much; 0 and absent weights stand for 1."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        return replace(self, resources=complete_resources(self.resources))

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors = super().validate(path, gates)
        seen = set()
        for index, spec in enumerate(self.resources):
            where = path.child("resources").at(index)
            if spec.name in seen:
                errors.append(duplicate(where.child("name"), spec.name))
            seen.add(spec.name)
            if spec.weight < 1:
                errors.append(invalid(where.child("weight"), spec.weight, "must be greater than zero"))
        return errors


class NodeResourcesLeastAllocatedArgs(OldAllocationArgs, frozen=True):
    """Arguments of NodeResourcesLeastAllocated."""


class NodeResourcesMostAllocatedArgs(OldAllocationArgs, frozen=True):
    """Arguments of NodeResourcesMostAllocated."""


class RequestedToCapacityRatioArgs(OldAllocationArgs, frozen=True):
    """The scoring function as points, and the resources it is applied to."""

    shape: tuple[UtilizationShapePoint, ...] = FREE_IS_BETTER

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        return [*super().validate(path, gates), *validate_shape(self.shape, path.child("shape"))]
