"""Arguments of PodTopologySpread."""

from collections.abc import Iterator
from typing import Self

from msgspec.structs import replace

from stowplan.api.fielderrors import (
    EnumText,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.api.names import label_key_problems
from stowplan.api.pod import TopologySpreadConstraint
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Spread constraints for pods that have none: built-in ones (`System`) or those listed (`List`)."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        return replace(self, defaulting_type=self.defaulting_type or SYSTEM_DEFAULTING)

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = list(self._validate_type(path.child("defaultingType")))
        list_path = path.child("defaultConstraints")
        seen = set()
        for index, constraint in enumerate(self.default_constraints):
            errors += _constraint_errors(constraint, list_path.at(index))
            rule = f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"
            if rule in seen:
                errors.append(duplicate(list_path.at(index), rule))
            seen.add(rule)
        return errors

    def _validate_type(self, path: Path) -> Iterator[str]:
        kind = EnumText(self.defaulting_type)
        if kind not in (SYSTEM_DEFAULTING, LIST_DEFAULTING):
            yield not_supported(path, kind, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
        elif kind == SYSTEM_DEFAULTING and self.default_constraints:
            yield invalid(path, kind, "when .defaultConstraints are not empty")


def _constraint_errors(constraint: TopologySpreadConstraint, path: Path) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield invalid(path.child("maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    key_path = path.child("topologyKey")
    if not constraint.topology_key:
        yield required(key_path, "can not be empty")
    else:
        for problem in label_key_problems(constraint.topology_key):
            yield invalid(key_path, constraint.topology_key, problem)
    action_path = path.child("whenUnsatisfiable")
    if not constraint.when_unsatisfiable:
        yield required(action_path, "can not be empty")
    elif constraint.when_unsatisfiable not in _ACTIONS:
        yield not_supported(action_path, EnumText(constraint.when_unsatisfiable), _ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(path.child("labelSelector"), detail)
