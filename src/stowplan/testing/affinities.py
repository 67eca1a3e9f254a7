"""Adding one wish to a pod's affinity."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from stowplan.api.meta import LabelSelector
from stowplan.api.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
)


def with_node_wish(
    had: Affinity | None, key: str, operator: str, values: Sequence[str], weight: int | None
) -> Affinity:
    """The affinity with one more requirement on nodes, or with a weight one more preference."""
    affinity = had or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
    if weight is None:
        required = nodes.required_during_scheduling_ignored_during_execution
        before = required.node_selector_terms[0].match_expressions if required else ()
        term = NodeSelectorTerm(match_expressions=(*before, requirement))
        nodes = replace(
            nodes,
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(term,)),
        )
    else:
        preference = PreferredSchedulingTerm(
            weight=weight, preference=NodeSelectorTerm(match_expressions=(requirement,))
        )
        preferred = nodes.preferred_during_scheduling_ignored_during_execution or ()
        nodes = replace(nodes, preferred_during_scheduling_ignored_during_execution=(*preferred, preference))
    return replace(affinity, node_affinity=nodes)


def with_pod_wish(
    had: Affinity | None,
    side: Literal["pod_affinity", "pod_anti_affinity"],
    topology_key: str,
    selects: LabelSelector,
    weight: int | None,
    fields: Mapping[str, Any],
) -> Affinity:
    """The affinity with one more term about pods, required, or preferred with a weight."""
    affinity = had or Affinity()
    terms: PodAffinity = getattr(affinity, side) or PodAffinity()
    term = PodAffinityTerm(topology_key=topology_key, label_selector=selects, **fields)
    if weight is None:
        required = terms.required_during_scheduling_ignored_during_execution
        terms = replace(terms, required_during_scheduling_ignored_during_execution=(*required, term))
    else:
        preferred = terms.preferred_during_scheduling_ignored_during_execution
        wish = WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)
        terms = replace(terms, preferred_during_scheduling_ignored_during_execution=(*preferred, wish))
    changes: dict[str, Any] = {side: terms}
    return replace(affinity, **changes)
