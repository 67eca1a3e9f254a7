"""All waiting pods of a cluster by cause, biggest cause first, with the change that would help most of them.

Pods of one template are alike to the scheduler, so each template is explained once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stowplan.api.pod import Pod
from stowplan.explain.explainer import PodExplanation
from stowplan.explain.group_members import is_waiting, what_would_help
from stowplan.explain.states import FITS
from stowplan.explain.terminal import too_large
from stowplan.explain.wakes import objects_awaited
from stowplan.scheduler.table.podinfo import PodInfo

SHOWN = 2
"""How many reasons and changes a cause is told by."""

NEAREST = 64
"""How many of the near misses of one plugin are looked at for a cause: it is one of many."""
SHOWN_NEAREST = 20
"""How many of them its explanation has."""


@dataclass(slots=True)
class Cause:
    """Pods that wait for the same reason, and what would help them."""

    namespace: str
    reason: str
    help: str
    pods: list[str] = field(default_factory=list)
    explanation: PodExplanation | None = None
    group: Mapping[str, Any] | None = None
    """The explanation of the group that they wait for together."""

    @property
    def name(self) -> str:
        """The pods by one name: `ml/train-*`, or that of their group."""
        if self.group is not None:
            return str(self.group["group"])
        names = [key.partition("/")[2] for key in self.pods]
        if len(names) == 1:
            return f"{self.namespace}/{names[0]}"
        return f"{self.namespace}/{_common_prefix(names)}*"

    def document(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "count": len(self.pods),
            "name": self.name,
            "reason": self.reason,
            "help": self.help,
            "explanation": None if self.explanation is None else self.explanation.document(SHOWN_NEAREST),
            "group": None
            if self.group is None
            else {name: self.group[name] for name in ("group", "kind", "state", "pods", "scheduled")},
        }


def causes(
    waiting: Iterable[Pod],
    info: Callable[[Pod], PodInfo],
    explain: Callable[[PodInfo], PodExplanation],
    group_of: Callable[[Pod], Mapping[str, Any] | None] = lambda pod: None,
) -> list[Cause]:
    """The causes that pods wait for. `explain` is asked once for every template.

    `group_of` gives the explanation of the group that a pod belongs to: if that waits, it is the cause, and
    each such group is one of its own.
    """
    by_template: dict[Any, PodExplanation] = {}
    found: dict[tuple[str, str, str], Cause] = {}
    for pod in waiting:
        group = group_of(pod)
        if group is not None and is_waiting(group):
            known, reason = None, f"{group['kind']}: {group['reason']}"
            helped = what_would_help(group, SHOWN) or "no single change was found"
        elif pod.spec.scheduling_gates:
            gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
            known, reason, helped = None, f"scheduling gate {gates}", "whoever owns the gate"
        else:
            looked = info(pod)
            known = by_template.get(looked.template)
            if known is None:
                known = by_template[looked.template] = explain(looked)
            reason, helped = _reason(known), _help(known)
        waits_for = group if group is not None and is_waiting(group) else None
        key = (
            pod.namespace,
            reason if waits_for is None else f"{waits_for['kind']} {waits_for['group']}",
            helped,
        )
        cause = found.get(key)
        if cause is None:
            cause = found[key] = Cause(pod.namespace, reason, helped, explanation=known, group=waits_for)
        cause.pods.append(pod.key)
    return sorted(found.values(), key=lambda cause: (-len(cause.pods), cause.name))


def _reason(explanation: PodExplanation) -> str:
    if explanation.state == FITS:
        return "about to be scheduled: a node fits"
    if explanation.facts.get("tooLarge"):
        return too_large(explanation.facts["tooLarge"])
    if not explanation.funnel:
        return explanation.message
    if explanation.rejected_outright:
        return explanation.funnel[0].reason
    lines = [f"{line.reason} on {line.nodes}" for line in explanation.funnel[:SHOWN]]
    return f"{', '.join(lines)} of {explanation.nodes} nodes"


def _help(explanation: PodExplanation) -> str:
    if explanation.state == FITS:
        return "nothing: wait"
    texts = [change.text for change in explanation.changes[:SHOWN]]
    if explanation.facts.get("tooLarge"):
        texts = [*texts[: SHOWN - 1], "a larger node type"]
    if not texts and explanation.rejected_outright:
        texts = objects_awaited(explanation.wakes)[:SHOWN]
    return ", or ".join(texts) or "no single change was found"


def _common_prefix(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    alike = zip(first, last, strict=False)
    return first[: next((place for place, (one, other) in enumerate(alike) if one != other), len(first))]
