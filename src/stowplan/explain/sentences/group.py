"""The sentences about a group of pods."""

from collections.abc import Iterator

from msgspec.structs import replace

from stowplan.explain.document.group import GroupDocument
from stowplan.explain.layout import moment, plural, span
from stowplan.explain.sentences.words import NO_CHANGE, SHOWN
from stowplan.explain.states import FITS


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
        headline=f"{found.kind} {found.group} {verb}{found.state}: {found.reason}"
        if found.exists
        else f"{found.kind} {found.group} does not exist; {found.reason}",
        remedy=group_remedy(found) if found.is_waiting else "",
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


def group_remedy(found: GroupDocument) -> str:
    """Changes that would place a group, in a few words."""
    changes = [f"{one.text} in {one.domain}" if one.domain else one.text for one in found.changes]
    return ", or ".join([*found.advice, *changes][:SHOWN]) or NO_CHANGE


def cause_of_group(group: GroupDocument) -> tuple[str, str]:
    """Why the members of a group wait, and what helps."""
    if not group.exists:
        return f"{group.kind} {group.group.partition('/')[2]} does not exist", group.remedy
    return f"{group.kind}: {group.reason}", group.remedy
