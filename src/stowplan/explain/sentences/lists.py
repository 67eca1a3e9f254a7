"""The sentences above lists, about a node, and in the lines of lists."""

from collections.abc import Sequence

from msgspec.structs import replace

from stowplan.explain.document.cluster import NodeDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.layout import plural
from stowplan.explain.sentences.words import brief


def told_pending(found: PendingDocument) -> PendingDocument:
    """The causes with the sentence above them."""
    waits = plural(found.pods, "pod waits", "pods wait")
    parts = [f"{waits} on {plural(len(found.causes), 'cause')}"] if found.causes else []
    elsewhere, started, created = (
        sum(cause.count for cause in causes)
        for causes in (found.elsewhere, found.not_started, found.not_created)
    )
    if elsewhere:
        parts.append(f"{plural(elsewhere, 'pod waits', 'pods wait')} and {_is(elsewhere)} not decided here")
    if started:
        parts.append(f"{plural(started, 'pod has', 'pods have')} a node and {_does(started)} not run")
    if created:
        parts.append(f"{plural(created, 'pod')} cannot be created")
    if not parts and found.incomplete:
        parts = [f"No waiting pod is known: {found.incomplete[0]}"]
    return replace(found, headline="; ".join(parts) or "No pod waits.")


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _does(count: int) -> str:
    return "does" if count == 1 else "do"


def daemons_cause(reason: str, pods: int) -> str:
    """The cause of pods of a DaemonSet: that of the pod whose node lacks most."""
    others = pods - 1
    return f"{reason}, and as much or less on {plural(others, 'other node')}" if others else reason


def pods_by_one_name(keys: Sequence[str]) -> str:
    """Pods of one namespace by one name: `ml/train-*`."""
    namespace = keys[0].partition("/")[0]
    found = [key.partition("/")[2] for key in keys]
    if len(found) == 1:
        return f"{namespace}/{found[0]}"
    first, last = min(found), max(found)
    same = zip(first, last, strict=False)
    end = next((place for place, (one, other) in enumerate(same) if one != other), len(first))
    return f"{namespace}/{first[:end]}*"


def told_node(found: NodeDocument) -> NodeDocument:
    """The node with its state in words: `Not ready (KubeletNotReady) · cordoned`."""
    ready = next((one for one in found.conditions if one.type == "Ready"), None)
    parts = ["Ready"]
    if ready is not None and ready.status != "True":
        parts = [f"Not ready ({ready.reason})" if ready.reason else "Not ready"]
    if found.unschedulable:
        parts.append("cordoned")
    parts += [one.type for one in found.conditions if one.type != "Ready" and one.status == "True"]
    return replace(found, headline=" · ".join(parts))


def decision_in_brief(outcome: str, message: str, victims: Sequence[str]) -> str:
    """Line of a list about a decision; empty for a pod that was simply bound."""
    if victims:
        return f"evicts {', '.join(victims)}"
    return "" if outcome == "bound" else brief(message)
