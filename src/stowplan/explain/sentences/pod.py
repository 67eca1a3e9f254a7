"""The sentences about one pod."""

from collections.abc import Iterator

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.explain.document.pod import Note, PodDocument
from stowplan.explain.layout import moment, plural, span
from stowplan.explain.sentences.held import cause_of_gates, cause_of_missing, remedy_elsewhere, undecided
from stowplan.explain.sentences.placed import helps, obstacle
from stowplan.explain.sentences.preemption import made_room, was_evicted
from stowplan.explain.sentences.words import NAMED, names
from stowplan.explain.stages import stages_of
from stowplan.explain.states import FITS, GONE, NOT_READY, PENDING, PLACED, PLACES
from stowplan.explain.wakes import sentence


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
    not_yet = stop or found.not_yet
    if not_yet is not None:
        reason, helped = not_yet.text, not_yet.remedy
    if found.evictions is not None:
        found = replace(found, evictions=replace(found.evictions, headline=made_room(found.evictions)))
    if found.evicted is not None:
        found = replace(found, evicted=replace(found.evicted, headline=was_evicted(found.evicted)))
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
        if bound and stop.text.startswith(NOT_READY):
            return f"{found.pod} is on {found.node} and is {stop.text}"
        if bound and stop.name == "bound":
            return f"{found.pod} does not run: {stop.text}"
        verb = "is on" if bound else "is to go to"
        return (
            f"{found.pod} {verb} {found.node} and {'does not run' if bound else 'is not bound'}: {stop.text}"
        )
    if found.not_yet is not None:
        return f"{found.pod} is on {found.node} and is {found.not_yet.text}"
    return f"{found.pod} is on {found.node}"


def _in_the_way(found: PodDocument) -> str:
    """Why a pod is pending, as briefly as a headline has it."""
    queue = found.queue
    if found.gates:
        then = f"; then: {obstacle(found)}" if found.would_go_to is None and found.funnel else ""
        return f"{cause_of_gates(found.gates)[0]}{then}"
    if found.missing:
        return cause_of_missing(found.missing)[0]
    if found.group is not None and found.waits_for_group:
        return found.group.headline
    if not found.is_ours:
        return undecided(found)
    if queue is not None and queue.place == "waiting":
        return f"{queue.node} is reserved, {', '.join(queue.held_by) or 'Permit'} holds it"
    return obstacle(found)


def cause(found: PodDocument) -> str:
    """Why a pod waits, as a list of causes has it."""
    if found.missing and not found.gates:
        return cause_of_missing(found.missing)[0]
    if found.group is not None and found.waits_for_group:
        return f"{found.group.kind}: {found.group.reason}"
    if found.gates:
        return cause_of_gates(found.gates)[0]
    if not found.is_ours:
        return undecided(found)
    if found.state == FITS:
        return "about to be scheduled: a node fits"
    return _in_the_way(found)


def remedy(found: PodDocument) -> str:
    """The changes that help a waiting pod most, in words."""
    if found.missing and not found.gates:
        return cause_of_missing(found.missing)[1]
    if found.group is not None and found.waits_for_group:
        return found.group.remedy
    if found.gates:
        said = cause_of_gates(found.gates, found.pod.partition("/")[0])[1]
        return "; ".join((said, *found.advice))
    if not found.is_ours:
        return remedy_elsewhere(found)
    if found.state == FITS:
        return "nothing: wait"
    return helps(found)


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
    """Notes on a pod that change the meaning of the rest."""
    if found.owners:
        yield Note("made by", " → ".join(reversed(found.owners)))
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
