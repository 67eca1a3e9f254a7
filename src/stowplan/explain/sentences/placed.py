"""The sentences about a pod that no node takes: what is in the way of the nodes it means, and what helps."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from stowplan.explain.document.pod import NodeGroup, PodDocument, TooLarge
from stowplan.explain.layout import plural
from stowplan.explain.sentences.words import NAMED, NO_CHANGE, SHOWN, names
from stowplan.explain.wakes import objects_awaited

_ROOM: Final = "NodeResourcesFit"
"""The filter whose rejection of all nodes that are meant may be said of all nodes there are."""
_CLAUSES: Final = 2
"""Groups of nodes that a headline names."""


def obstacle(found: PodDocument) -> str:
    """Obstacle on the nodes that a pod means, as briefly as a headline has it."""
    if found.evictions is not None and found.evictions.victims and found.nominated_node:
        leaving = names(found.evictions.victims, NAMED)
        return f"nominated to {found.nominated_node}, waits for {leaving} to leave (evicted for it)"
    if found.refusal is not None:
        plugins = " and ".join(found.refusal.plugins)
        what = f"{plugins} refused it" if plugins else "it was not bound"
        return f"{found.refusal.node} was chosen and {what}: {found.refusal.message}"
    if not found.nodes and found.incomplete:
        return found.incomplete[0]
    if not found.funnel:
        return found.message
    meant = [group for group in found.groups_of_nodes if group.meant]
    if found.too_large and all(group.plugin == _ROOM and group.form != "cluster" for group in meant):
        return _larger_than_any(found.too_large)
    if not meant:
        return f"no node fits (0 of {found.nodes})"
    merged = _merged(meant)
    clauses = [clause(group) for group in merged[:_CLAUSES]]
    more = sum(group.nodes for group in merged[_CLAUSES:])
    return "; ".join([*clauses, *([f"{plural(more, 'more node')} for other reasons"] if more else [])])


def _merged(groups: Sequence[NodeGroup]) -> list[NodeGroup]:
    """The groups, with those in one that the same thing rules out."""
    found: dict[tuple[str, str], NodeGroup] = {}
    for group in groups:
        known = found.get((group.text, group.form))
        both = group if known is None else _both(known, group)
        found[group.text, group.form] = both
    return list(found.values())


def _both(one: NodeGroup, other: NodeGroup) -> NodeGroup:
    return replace(one, name=f"{one.name} and {other.name}", nodes=one.nodes + other.nodes)


def clause(group: NodeGroup) -> str:
    """Nodes and what rules them out: `2 cpu short on n1`, `n1 is cordoned`."""
    if group.form == "cluster":
        return group.text
    if group.form == "is":
        return f"{group.name} {'is' if group.nodes == 1 else 'are'} {group.text}"
    return f"{group.text} on {group.name}"


def listed(group: NodeGroup) -> str:
    """The same as an entry of a list: `8 nodes of pool infer: 2 cpu short`."""
    return group.text if group.form == "cluster" else f"{group.name}: {group.text}"


def helps(found: PodDocument) -> str:
    """Remedy for a pod that no node takes, in words."""
    if found.evictions is not None and found.evictions.victims and found.nominated_node:
        return f"wait: {names(found.evictions.victims, NAMED)} is ending"
    if found.refusal is not None:
        return f"{' and '.join(found.refusal.plugins) or 'the API server'} has to accept it: nodes have room"
    if not found.nodes and found.incomplete:
        return "add what is missing to the dump"
    texts = [*found.advice, *(change.text for change in found.changes)][:SHOWN]
    if found.too_large and len(texts) < SHOWN:
        unknown = [one.resource for one in found.too_large if one.largest == "0"]
        texts.append(f"nodes that have {' and '.join(unknown)}" if unknown else "a larger node type")
    if not texts and found.rejected_outright:
        texts = objects_awaited(found.wakes)[:SHOWN]
    return ", or ".join(texts) or NO_CHANGE


def _larger_than_any(short: Sequence[TooLarge]) -> str:
    parts = [
        f"{one.resource} {one.wanted}, largest {one.largest}"
        if one.largest != "0"
        else f"{one.resource} {one.wanted}, no node has any"
        for one in short
    ]
    return f"larger than any node ({'; '.join(parts)})"
