"""The sentences of documents: headline, cause, remedy, what is awaited. They are made here and nowhere else.

Whoever makes a document, or adds to one, calls `told_pod` or `told_group` last; terminal, page, JSON and
events show what stands there then. Names are never cut here: whoever shows a sentence knows how much room
there is, and names that a viewer may not see are found by their full length.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.explain.document.cluster import NodeDocument
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import GroupChange, Note, PodDocument, TooLarge
from stowplan.explain.document.preemption import Eviction, GroupPreemption, Preemption, VictimUnit
from stowplan.explain.layout import moment, plural, span
from stowplan.explain.stages import stages_of
from stowplan.explain.states import FITS, GONE, PENDING, PLACED, PLACES
from stowplan.explain.wakes import objects_awaited, sentence

SHOWN: Final = 2
"""How many reasons a cause, and how many changes a remedy has."""
NAMED: Final = 4
"""How many pods a sentence names."""
NO_CHANGE: Final = "no single change was found"

_PREEMPTION: Final = "preemption: "
"""How the scheduler's message about preemption begins."""
_GROUP_PREEMPTION: Final = "pod group preemption: "
_GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable, "
_NODE_COUNTS: Final = re.compile(r"0/\d+ nodes are available: ")


# A pod


def told_pod(found: PodDocument, now: float | None = None) -> PodDocument:
    """The document with its sentences; `now` is the time in seconds since 1970 at which it was made."""
    if now is not None:
        found = replace(found, time=timestamp(now))
    waits = found.state == PENDING
    at_permit = found.queue is not None and found.queue.place == "waiting"
    reason, helped = (cause(found), remedy(found)) if waits or at_permit else ("", "")
    stages = stages_of(found, reason, helped)
    found = replace(found, stages=stages)
    stop = found.stopped
    if stop is not None:
        reason, helped = stop.text, stop.remedy
    if found.evictions is not None:
        found = replace(found, evictions=replace(found.evictions, headline=_made_room(found.evictions)))
    if found.evicted is not None:
        found = replace(found, evicted=replace(found.evicted, headline=_was_evicted(found.evicted)))
    return replace(
        found,
        headline=_headline(found),
        cause=reason,
        remedy=helped,
        stopped_at=None if stop is None else stop.name,
        situation=tuple(_situation(found)),
        notes=tuple(_notes(found)),
        why=tuple(_why(found)),
        awaits=tuple(sentence(found.wakes, found.funnel)) if waits else (),
    )


def _headline(found: PodDocument) -> str:
    if found.state == PENDING:
        return f"{found.pod} is pending: {_in_the_way(found)}"
    if found.state == FITS:
        count = plural(found.feasible, "node")
        return f"{found.pod} would go to {found.would_go_to}: {count} of {found.nodes} fit"
    if found.state == GONE:
        return f"{found.pod} is gone: {found.message}"
    stop = found.stopped
    if stop is not None:
        bound = found.queue is None or found.queue.place not in ("waiting", "binding")
        verb = "is on" if bound else "is to go to"
        return (
            f"{found.pod} {verb} {found.node} and {'does not run' if bound else 'is not bound'}: {stop.text}"
        )
    return f"{found.pod} is on {found.node}"


def _in_the_way(found: PodDocument) -> str:
    """Why a pod is pending, as briefly as a headline has it."""
    queue = found.queue
    if found.gates:
        return f"held by scheduling {'gate' if len(found.gates) == 1 else 'gates'} {', '.join(found.gates)}"
    if found.group is not None and found.waits_for_group:
        return found.group.headline
    if not found.is_ours:
        return _undecided(found)
    if queue is not None and queue.place == "waiting":
        return f"{queue.node} is reserved, {', '.join(queue.held_by) or 'Permit'} holds it"
    if not found.nodes and found.incomplete:
        return found.incomplete[0]
    if not found.funnel:
        return found.message
    if found.too_large:
        return _larger_than_any(found.too_large)
    if found.rejected_outright:
        return found.funnel[0].reason
    return f"no node fits (0 of {found.nodes})"


def cause(found: PodDocument) -> str:
    """Why a pod waits, as a list of causes has it: with the reasons that rule out most nodes."""
    if found.group is not None and found.waits_for_group:
        return f"{found.group.kind}: {found.group.reason}"
    if found.gates:
        return cause_of_gates(found.gates)[0]
    if not found.is_ours:
        return _undecided(found)
    if found.state == FITS:
        return "about to be scheduled: a node fits"
    if not found.funnel or found.too_large or found.rejected_outright or found.feasible:
        return _in_the_way(found)
    lines = [f"{line.reason} on {line.nodes}" for line in found.funnel[:SHOWN]]
    return f"{', '.join(lines)} of {found.nodes} nodes"


def remedy(found: PodDocument) -> str:
    """The changes that help a waiting pod most, in words."""
    if found.group is not None and found.waits_for_group:
        return group_remedy(found.group.changes)
    if found.gates:
        return cause_of_gates(found.gates)[1]
    if not found.is_ours:
        return _remedy_elsewhere(found)
    if found.state == FITS:
        return "nothing: wait"
    texts = [change.text for change in found.changes[:SHOWN]]
    if found.too_large:
        texts = [*texts[: SHOWN - 1], "a larger node type"]
    if not found.nodes and found.incomplete:
        return "add what is missing to the dump"
    if not texts and found.rejected_outright:
        texts = objects_awaited(found.wakes)[:SHOWN]
    return ", or ".join(texts) or NO_CHANGE


def _undecided(found: PodDocument) -> str:
    """Why a pod waits that the scheduler that answers does not decide."""
    decider = found.decider
    if decider is None:
        return ""
    if decider.kind == "nobody":
        return f"nobody answers to schedulerName {decider.scheduler}"
    if decider.kind == "unknown":
        return f"schedulerName {decider.scheduler} is none of the profiles here"
    said = brief(found.message)
    return (
        f"scheduler {decider.scheduler} decides it and {f'says: {said}' if said else 'has said nothing yet'}"
    )


def _remedy_elsewhere(found: PodDocument) -> str:
    """What helps a pod that the scheduler that answers does not decide."""
    decider = found.decider
    if decider is None or decider.kind == "other":
        name = "" if decider is None else decider.scheduler
        return f"ask scheduler {name}, or evaluate with its configuration (--config)"
    if decider.kind == "unknown":
        return (
            f"see whether scheduler {decider.scheduler} runs, or evaluate with its configuration (--config)"
        )
    texts = [f"start scheduler {decider.scheduler}", *(change.text for change in found.changes[:1])]
    return ", or ".join(texts)


def cause_of_gates(gates: Sequence[str]) -> tuple[str, str]:
    """Why a pod with scheduling gates waits, and what helps."""
    return f"scheduling gate {', '.join(gates)}", "whoever owns the gate"


def cause_of_group(group: GroupDocument) -> tuple[str, str]:
    """Why the members of a group wait, and what helps."""
    return f"{group.kind}: {group.reason}", group_remedy(group.changes)


def _larger_than_any(short: Sequence[TooLarge]) -> str:
    parts = [
        f"{one.resource} {one.wanted}, largest {one.largest}"
        if one.largest != "0"
        else f"{one.resource} {one.wanted}, no node has any"
        for one in short
    ]
    return f"larger than any node ({'; '.join(parts)})"


def _situation(found: PodDocument) -> Iterator[str]:
    """Where the pod is, since when and until when, and where all this is known from."""
    now = moment(found.time)
    if found.attempts:
        last = found.attempts[0]
        then = moment(last.time)
        ago = "" if then is None or now is None else f", {span(now - then)} ago"
        yield f"attempt {last.number}{ago}"
    queue = found.queue
    place = "" if queue is None or queue.place not in PLACES else PLACES[queue.place].short
    if queue is not None and place:
        until = moment(queue.until)
        if until is not None and now is not None:
            ahead = span(until - now)
            place += f" until in {ahead}" if queue.place == "backoff" else f", at the latest in {ahead}"
        yield place
    yield f"source: {found.source}"


def _notes(found: PodDocument) -> Iterator[Note]:
    """What else is known of a pod that changes what all the rest means."""
    held = {} if found.queue is None else found.queue.held_by
    yield from (Note(plugin, said) for plugin, said in held.items())
    nominated = found.nominated_node and found.state != PLACED
    victims = () if found.evictions is None else found.evictions.victims
    if nominated:
        leave = f", waits for {names(victims, NAMED)} to leave (evicted for it)" if victims else ""
        yield Note("", f"nominated to {found.nominated_node}{leave}")
    elif found.evictions is not None and victims:
        yield Note("", found.evictions.headline)
    if found.state == PENDING:
        yield from (Note(f"claim {one.claim}", one.text) for one in found.claims)
    if found.evicted is not None and found.state != GONE:
        yield Note("", found.evicted.headline)


def _why(found: PodDocument) -> Iterator[str]:
    """Why the pod is on its node or would go to one."""
    node = found.would_go_to
    if found.state == GONE:
        return
    if node is None:
        if found.state != PENDING and not found.is_ours and found.decider is not None:
            yield f"Scheduler {found.decider.scheduler} decided that; its plugins are not known here."
        elif found.state != PENDING and found.message:
            yield found.message
        return
    count = f"{plural(found.feasible, 'node')} of {found.nodes}"
    if found.state == PENDING:
        if found.waits_for_group:
            yield f"The pod alone would fit: {count} would take it."
        elif found.gates:
            yield f"Without its gates it would go to {node}: {count} fit."
        else:
            yield f"It would go to {node}: {count} fit."
        return
    if found.ties > 1:
        yield f"{found.ties} nodes are equally good; ties are broken at random."
    elif found.decided_by and len(found.scores) > 1:
        lead = plural(found.margin or 0, "point")
        runner_up = found.scores[1].node
        yield f"{node} is ahead of {runner_up} by {lead}, most of it from {found.decided_by}."
    else:
        yield f"{node} is the only node that fits."
    if found.state == PLACED:
        yield _again(found)


def _again(found: PodDocument) -> str:
    node = found.would_go_to
    if node == found.node:
        return "It would be placed there again now."
    if found.message:
        return f"{found.message}; it would go to {node}."
    own = next((one.total for one in found.scores if one.node == found.node), None)
    lead = "" if own is None else f", {plural(found.scores[0].total - own, 'point')} better"
    return f"It would go to {node} now{lead}."


def outcome(node: str, nodes: int, victims: Sequence[str] = ()) -> str:
    """Where a pod would go after a change: `n1, 3 nodes fit`."""
    if victims:
        return f"{node}; {names(victims, SHOWN)} would go"
    return node if nodes == 1 else f"{node}, {plural(nodes, 'node')} fit"


def brief(message: str) -> str:
    """A message of the scheduler without what all such messages begin with."""
    while message.startswith(_GROUP_UNSCHEDULABLE):
        message = message.removeprefix(_GROUP_UNSCHEDULABLE)
    counted = _NODE_COUNTS.match(message)
    return message if counted is None else message[counted.end() :]


def names(keys: Sequence[str], most: int) -> str:
    """Pods by name, so many at most."""
    shown = list(keys[:most])
    more = len(keys) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


# Preemption


def would_preempt(found: Preemption) -> str:
    """What preemption would do for a pod that waits; empty if there is nothing to say about it."""
    if found.node:
        return f"Preemption would make room on {found.node}: {names(found.victims, NAMED)} would go"
    if found.funnel:
        return "Preemption does not help"
    said = found.message.partition(_PREEMPTION)[2].removesuffix(".")
    reason = said.partition(": ")[2] if said.startswith("0/") else said
    return f"Preemption does not help: {reason}" if reason else ""


def did_preempt(found: Preemption) -> str:
    """What a search that was carried out is about: why its victims were these."""
    return f"Why pods of {found.node} were evicted" if found.chosen_by is not None else ""


def stay(count: int) -> str:
    """That so many pods stay."""
    return "stays: there is room for it" if count == 1 else "stay: there is room for them"


def _made_room(found: Eviction) -> str:
    """Who was evicted for a pod."""
    place = f" from {found.node}" if found.node else ""
    return f"evicted {names(found.victims, NAMED)}{place} for it" if found.victims else ""


def _was_evicted(found: Eviction) -> str:
    """For whom a pod was evicted."""
    preemptors = f" for {names(found.by, NAMED - 1)}" if found.by else ""
    return f"evicted{preemptors}{f': {found.message}' if found.message else ''}"


def told_group_preemption(found: GroupPreemption) -> GroupPreemption:
    """The search of a group for victims, with its sentences."""
    message = found.message.removeprefix(_GROUP_PREEMPTION)
    found = replace(found, message=message)
    if not found.helps or not found.victim_units:
        return replace(found, headline=f"Preemption does not help: {_why_no_room(found)}")
    headline = f"Preemption would make room: {plural(len(found.victims), 'pod')} would go"
    details = []
    if found.pdb_violations:
        details.append(f"{plural(found.pdb_violations, 'pod')} of them against a PodDisruptionBudget")
    left = found.candidates - found.victim_units
    if left:
        examples = ", ".join(unit_name(one) for one in found.spared[:2])
        others = "the only other one" if left == 1 else f"the {left} others"
        details.append(f"{others} of lower priority ({examples}{', …' if left > 2 else ''}) {stay(left)}")
    return replace(found, headline=headline, details=tuple(details))


def _why_no_room(found: GroupPreemption) -> str:
    if found.helps:
        return found.message
    lower = f"of lower priority than {found.priority}"
    if found.without_victims:
        gone = plural(found.candidates, "pod or group", "pods and groups")
        return f"even without the {gone} {lower}: {found.without_victims}"
    if not found.candidates and found.message.startswith("No preemption victims"):
        return f"no pod or group {lower}"
    return found.message.removesuffix(".")


_UNITS: Final = {"podgroup": "group", "compositepodgroup": "composite group"}


def unit_name(one: VictimUnit) -> str:
    """Pods that go together, by name: `group ml/train (16 pods)`."""
    kind, _, name = one.unit.partition("/")
    shown = f"{_UNITS.get(kind, kind)} {name}" if name else kind
    return shown if kind == "pod" else f"{shown} ({plural(one.pods, 'pod')})"


# A group


def told_group(found: GroupDocument, now: float | None = None) -> GroupDocument:
    """The document with its sentences; `now` is the time in seconds since 1970 at which it was made."""
    verb = "" if found.state == FITS else "is "
    stop = found.stopped_by
    if stop is not None:
        where = f" in {stop.domain}" if stop.domain else ""
        asks = f" (asks for {stop.asks})" if stop.asks else ""
        stop = replace(stop, headline=f"What stops it{where}: {stop.pod}{asks}")
    return replace(
        found,
        headline=f"{found.kind} {found.group} {verb}{found.state}: {found.reason}",
        remedy=group_remedy(found.changes) if found.is_waiting else "",
        situation=tuple(_group_situation(found)),
        waits=tuple(_group_waits(found, now)),
        stopped_by=stop,
    )


def _group_situation(found: GroupDocument) -> Iterator[str]:
    things = "groups" if found.kind == "CompositePodGroup" else "pods"
    yield f"gang of at least {found.minimum} {things}" if found.policy == "gang" else "basic policy"
    if found.topology_key:
        yield f"all with the same {found.topology_key}"
    if things == "pods":
        yield f"{plural(found.pods, 'pod')}, {found.scheduled or 'none'} with a node"


def _group_waits(found: GroupDocument, now: float | None) -> Iterator[str]:
    since, until = moment(found.since), moment(found.until)
    if found.place and since is not None and now is not None:
        yield f"in {found.place} for {span(now - since)}"
    if found.held_by:
        yield found.held_by
    if found.attempts:
        yield plural(found.attempts, "attempt")
    if until is not None and now is not None:
        yield f"tried again in {span(until - now)} at the latest"


def group_remedy(changes: Sequence[GroupChange]) -> str:
    """The changes that would place a group, in a few words."""
    texts = [f"{one.text} in {one.domain}" if one.domain else one.text for one in changes[:SHOWN]]
    return ", or ".join(texts) or NO_CHANGE


# Lists


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
    """What a line of a list says about a decision; nothing about a pod that was simply bound."""
    if victims:
        return f"evicts {', '.join(victims)}"
    return "" if outcome == "bound" else brief(message)
