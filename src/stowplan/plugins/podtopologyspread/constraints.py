"""Spread constraints as the plugin reads them."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stowplan.api.labels import Selector, compile_selector, selector_from_labels
from stowplan.api.pod import TopologySpreadConstraint
from stowplan.cluster.podinfo import PodInfo

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT, max_skew=5),
)
"""For pods without constraints of their own: spread over hosts, and less strictly over zones."""


class Constraint(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One constraint with its selector parsed. `self_match`: the incoming pod is of the group itself."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    self_match: bool
    honors_affinity: bool
    honors_taints: bool


class Constraints(NamedTuple):
    """The constraints of a pod, by what happens when they cannot be met.

    With `requires_all`, nodes that lack any of the topology keys are left out of scoring altogether.
    """

    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]
    requires_all: bool

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)


NO_CONSTRAINTS = Constraints((), (), True)


def parse(
    constraints: Sequence[TopologySpreadConstraint], action: str, pod: PodInfo, *, label_keys: bool
) -> tuple[Constraint, ...]:
    """The constraints with one action, with `label_keys` their selectors narrowed by matchLabelKeys.

    Raises SelectorError.
    """
    found: list[Constraint] = []
    before: tuple[TopologySpreadConstraint, Selector] | None = None
    for constraint in constraints:
        if constraint.when_unsatisfiable != action:
            continue
        if before is not None and _selects_alike(before[0], constraint):
            selector = before[1]
        else:
            selector = _selector(constraint, pod, label_keys)
            before = (constraint, selector)
        found.append(_constraint(constraint, selector, pod))
    return tuple(found)


def _selects_alike(one: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    return one.label_selector == other.label_selector and one.match_label_keys == other.match_label_keys


def with_selector(
    constraints: Sequence[TopologySpreadConstraint], action: str, selector: Selector, pod: PodInfo
) -> tuple[Constraint, ...]:
    """Default constraints, for the group of pods that services and owners give."""
    return tuple(
        _constraint(constraint, selector, pod)
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, pod: PodInfo, label_keys: bool) -> Selector:
    selector = compile_selector(constraint.label_selector)
    if not label_keys:
        return selector
    own = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    if not own or selector.nothing:
        return selector
    return selector_from_labels(own).adding(selector)


def _constraint(constraint: TopologySpreadConstraint, selector: Selector, pod: PodInfo) -> Constraint:
    affinity_policy, taints_policy = constraint.node_affinity_policy, constraint.node_taints_policy
    return Constraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        self_match=selector.matches(pod.labels),
        honors_affinity=affinity_policy is None or affinity_policy == HONOR,
        honors_taints=taints_policy == HONOR,
    )
