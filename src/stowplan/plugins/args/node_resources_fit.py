"""Arguments of NodeResourcesFit."""

from collections.abc import Iterator
from typing import Self

from msgspec.structs import replace

from stowplan.api.fielderrors import (
    EnumText,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.api.meta import Struct
from stowplan.api.names import label_key_problems
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs
from stowplan.plugins.args.resource_spec import CPU_AND_MEMORY, ResourceSpec, complete_resources
from stowplan.plugins.args.shape import UtilizationShapePoint, validate_shape

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class RequestedToCapacityRatioParam(Struct, frozen=True):
    """The scoring function of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Struct, frozen=True):
    """How nodes are ranked by their resources. A strategy that is given has to name its type."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def validate(self, path: Path) -> Iterator[str]:
        if self.type not in (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO):
            supported = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
            yield not_supported(path.child("type"), EnumText(self.type), supported)
        for index, spec in enumerate(self.resources):
            if not 0 < spec.weight <= 100:
                where = path.child("resources").at(index).child("weight")
                yield invalid(
                    where, spec.weight, f"resource weight of {spec.name} not in valid range (0, 100]"
                )
        yield from self._validate_ratio(path.child("requestedToCapacityRatio"))

    def _validate_ratio(self, path: Path) -> Iterator[str]:
        ratio = self.requested_to_capacity_ratio
        if self.type == REQUESTED_TO_CAPACITY_RATIO:
            if ratio is None:
                yield required(path, f"must be specified when type is {REQUESTED_TO_CAPACITY_RATIO}")
            else:
                yield from validate_shape(ratio.shape, path.child("shape"))
        elif ratio is not None:
            yield forbidden(path, f"must be nil when type is not {REQUESTED_TO_CAPACITY_RATIO}")


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Extended resources the filter does not look at (by name, by domain), and how nodes are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=LEAST_ALLOCATED, resources=CPU_AND_MEMORY)

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        strategy = self.scoring_strategy
        strategy = replace(strategy, resources=complete_resources(strategy.resources))
        return replace(self, scoring_strategy=strategy)

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        for index, name in enumerate(self.ignored_resources):
            errors += _label_key_errors(name, path.child("ignoredResources").at(index))
        for index, group in enumerate(self.ignored_resource_groups):
            where = path.child("ignoredResourceGroups").at(index)
            if "/" in group:
                errors.append(invalid(where, group, "resource group name can't contain '/'"))
            errors += _label_key_errors(group, where)
        return [*errors, *self.scoring_strategy.validate(path.child("scoringStrategy"))]


def _label_key_errors(name: str, path: Path) -> list[str]:
    return [invalid(path, name, problem) for problem in label_key_problems(name)]
