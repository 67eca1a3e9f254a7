"""Pods that the scheduler or configuration that answers does not decide: none of its plugins is asked.

Where nobody decides a pod, it is tried with the first profile: naming that one may be the remedy.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from stowplan.api.names import closest
from stowplan.api.pod import Pod
from stowplan.explain.commands import joined_patches, patching
from stowplan.explain.document.layers import Decider
from stowplan.explain.document.pod import Change, PodDocument
from stowplan.explain.explainers.facts import with_facts
from stowplan.explain.sentences.held import GATE, WITH_PROFILE, gate_owner
from stowplan.explain.sentences.words import SHOWN, outcome
from stowplan.explain.states import FITS, PENDING, PLACED
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable


def unevaluated(info: PodInfo, table: ClusterTable, source: str, decider: Decider | None) -> PodDocument:
    """Facts about a pod that is not evaluated. Its sentences are still to be made."""
    node = table.name_of(info.row) if info.row >= 0 else info.pod.spec.node_name or None
    found = PodDocument(
        pod=info.key,
        state=PENDING if node is None else PLACED,
        source=source,
        node=node,
        message=_last_word(info),
        nodes=table.node_count,
        decider=decider,
    )
    return with_facts(found, info, table, NO_NOMINATIONS)


def with_profile_change(found: PodDocument, pod: Pod, tried: PodDocument, profile: str) -> PodDocument:
    """The document of a pod that nobody decides, with the result of a profile (`tried`) as a change."""
    if tried.state != FITS or tried.would_go_to is None:
        return _with_both(found, pod, tried, profile)
    change = Change(
        kind="schedulerName",
        text=f"schedulerName {profile} (now {pod.spec.scheduler_name})",
        node=tried.would_go_to,
        nodes=tried.feasible,
        patch={"spec": {"schedulerName": profile}},
        outcome=outcome(tried.would_go_to, tried.feasible),
    )
    return replace(found, changes=(change,))


def _with_both(found: PodDocument, pod: Pod, tried: PodDocument, profile: str) -> PodDocument:
    """The same for a pod that no node takes with that profile either: both have to change at once."""
    then = f"{WITH_PROFILE}{profile}: {tried.headline.partition(': ')[2]}"
    patches = ((one, one.patch) for one in tried.changes if one.patch is not None and not one.claim)
    changes = tuple(
        replace(
            one,
            kind="schedulerName",
            text=f"schedulerName {profile} (now {pod.spec.scheduler_name}) and {one.text}",
            patch=joined_patches(patch, {"spec": {"schedulerName": profile}}),
        )
        for one, patch in patches
    )
    return replace(found, message=then, changes=changes[:SHOWN])


def profile_for(name: str, profiles: Iterable[str]) -> str:
    """The profile to try for a pod whose scheduler nobody runs: the one that was probably meant, or the
    first."""
    known = [*profiles]
    return closest(name, known) or known[0]


def with_gate_change(found: PodDocument) -> PodDocument:
    """The document of a pod with gates, with their removal as a change if a node would take it then.

    Gates of a controller that is known to check something are that controller's to remove. Where no node
    would take the pod then, what places it is advice: with the gates it does nothing.
    """
    node = found.would_go_to
    if found.gates and node is None and found.changes:
        then = tuple(f"then {change.text}" for change in found.changes[:SHOWN])
        return replace(found, changes=(), advice=(*found.advice, *then))
    if not found.gates or node is None or any(map(gate_owner, found.gates)) or found.waits_for_group:
        return found
    namespace, _, name = found.pod.partition("/")
    gates = " and ".join(found.gates)
    change = Change(
        kind=GATE,
        text=f"remove {'gate' if len(found.gates) == 1 else 'gates'} {gates} by hand",
        node=node,
        nodes=found.feasible,
        outcome=outcome(node, found.feasible),
        command=patching(
            f"pod/{name}", namespace, [{"op": "remove", "path": "/spec/schedulingGates"}], "json"
        ),
    )
    return replace(found, changes=(change,))


def _last_word(info: PodInfo) -> str:
    """Last message of the pod's scheduler, in the condition PodScheduled."""
    conditions = info.pod.status.conditions
    return next((one.message for one in conditions if one.type == "PodScheduled" and one.message), "")
