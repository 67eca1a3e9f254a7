"""All waiting pods of a cluster by cause, biggest cause first, with the change that would help most of them.

The scheduler cannot tell pods of one template apart, so each template is explained once. A group of pods that
waits is one cause, whatever its members could do alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.pending import Cause, GroupOfCause, PendingDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.sentences.group import cause_of_group
from stowplan.explain.sentences.held import cause_of_gates
from stowplan.explain.sentences.lists import daemons_cause, pods_by_one_name, told_pending
from stowplan.explain.sentences.pod import cause, remedy

if TYPE_CHECKING:
    from stowplan.scheduler.table.podinfo import PodInfo

NEAREST: Final = 64
"""How many of the near misses of one plugin are looked at for a cause: it is one of many."""
SHOWN_NEAREST: Final = 20
"""How many of them its explanation has."""
_NO_OTHERS: Final = PendingDocument()


@dataclass(slots=True)
class _Waiting:
    """Pods that wait for the same reason, so far."""

    reason: str
    help: str
    explanation: PodDocument | None
    group: GroupDocument | None
    scheduler: str | None = None
    daemons: bool = False
    """True for pods of one DaemonSet, each of which waits for a node of its own."""
    pods: list[str] = field(default_factory=list)

    def add_daemon(self, found: PodDocument, reason: str, helped: str) -> None:
        """Another pod of the same DaemonSet, on its own node: what helps where most is missing helps all."""
        if self.explanation is None or _missing(found) > _missing(self.explanation):
            self.explanation, self.reason, self.help = found, reason, helped

    def document(self) -> Cause:
        group, found = self.group, self.explanation
        if found is not None:
            found = replace(found, near_misses=found.near_misses[:SHOWN_NEAREST])
        return Cause(
            pods=tuple(self.pods),
            count=len(self.pods),
            name=pods_by_one_name(self.pods) if group is None else group.group,
            reason=daemons_cause(self.reason, len(self.pods)) if self.daemons else self.reason,
            help=self.help,
            explanation=found,
            group=None
            if group is None
            else GroupOfCause(group.group, group.kind, group.state, group.pods, group.scheduled),
            scheduler=self.scheduler,
        )


def causes_of_documents(found: Iterable[PodDocument]) -> tuple[Cause, ...]:
    """Pods by what their documents say: those that nobody evaluates, or that wait on their nodes."""
    return causes_of_samples((one, (one.pod,)) for one in found)


def causes_of_samples(found: Iterable[tuple[PodDocument, Sequence[str]]]) -> tuple[Cause, ...]:
    """The same for documents that each stand for several pods."""
    known: dict[tuple[str, str, str], _Waiting] = {}
    for one, pods in found:
        scheduler = None if one.decider is None or one.is_ours else one.decider.scheduler
        key = (one.pod.partition("/")[0], _alike(one), scheduler or "")
        if key not in known:
            known[key] = _Waiting(one.cause, one.remedy, one, None, scheduler)
        known[key].pods += pods
    return _by_size(known.values())


def _alike(found: PodDocument) -> str:
    """A cause without what only one pod has in it."""
    return found.cause.replace(found.pod.partition("/")[2], "")


def _daemons(pod: Pod, found: PodDocument) -> tuple[str, str, str] | None:
    """The key of a DaemonSet's pods that the same filters reject and the same kind of change helps.

    Each is for one node, so the reasons differ in the node's name and in how much is missing.
    """
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    if owner is None or owner.kind != "DaemonSet" or not found.groups_of_nodes:
        return None
    meant = [one for one in found.groups_of_nodes if one.meant]
    if not meant or any(one.nodes > 1 for one in meant):
        return None
    kind = found.changes[0].kind if found.changes else ""
    return pod.namespace, f"daemonset {owner.name} {' '.join(sorted({one.plugin for one in meant}))}", kind


def _missing(found: PodDocument) -> float:
    return max((one.size for one in found.groups_of_nodes if one.meant), default=0.0)


def _by_size(causes: Iterable[_Waiting]) -> tuple[Cause, ...]:
    return tuple(sorted((one.document() for one in causes), key=lambda one: (-one.count, one.name)))


def pending_document(
    waiting: Iterable[Pod],
    info: Callable[[Pod], "PodInfo"],
    explain: Callable[["PodInfo"], PodDocument],
    group_of: Callable[[Pod], GroupDocument | None],
    source: str,
    others: PendingDocument = _NO_OTHERS,
) -> PendingDocument:
    """The causes that pods wait for. `explain` is asked once for every template.

    `group_of` gives the explanation of the group that a pod belongs to: if that waits, it is the cause, and
    each such group is one of its own. `others` has the pods that are not waiting for this scheduler.
    """
    by_template: dict[Any, PodDocument] = {}
    found: dict[tuple[str, str, str], _Waiting] = {}
    count = 0
    for pod in waiting:
        count += 1
        known: PodDocument | None = None
        group = group_of(pod)
        if group is not None and not group.is_waiting:
            group = None
        if group is not None:
            reason, helped = cause_of_group(group)
            group = group if group.exists else None
        elif pod.spec.scheduling_gates:
            reason, helped = cause_of_gates([gate.name for gate in pod.spec.scheduling_gates], pod.namespace)
        else:
            looked = info(pod)
            known = by_template.get(looked.template)
            if known is None:
                known = by_template[looked.template] = explain(looked)
            reason, helped = cause(known), remedy(known)
        daemons = None if known is None else _daemons(pod, known)
        key = (pod.namespace, reason if group is None else f"{group.kind} {group.group}", helped)
        one = found.setdefault(
            daemons or key, _Waiting(reason, helped, known, group, daemons=daemons is not None)
        )
        one.pods.append(pod.key)
        if daemons is not None and known is not None:
            one.add_daemon(known, reason, helped)
    explained = (*by_template.values(),)
    missing = dict.fromkeys((*others.incomplete, *(line for one in explained for line in one.incomplete)))
    return told_pending(
        replace(others, pods=count, causes=_by_size(found.values()), source=source, incomplete=tuple(missing))
    )
