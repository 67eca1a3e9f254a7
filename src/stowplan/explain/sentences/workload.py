"""The sentences about a workload."""

from collections.abc import Iterator

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.explain.document.pending import Cause
from stowplan.explain.document.workload import WorkloadDocument
from stowplan.explain.layout import plural
from stowplan.explain.sentences.words import SHOWN
from stowplan.explain.states import PLACED


def told_workload(found: WorkloadDocument, now: float | None = None) -> WorkloadDocument:
    """The document with its sentences; `now` is the time in seconds since 1970 at which it was made."""
    stop = found.stopped
    remedies = [] if stop is None or not stop.remedy else [stop.remedy]
    remedies += [cause.help for cause in found.causes[:1] if cause.help]
    return replace(
        found,
        time=found.time if now is None else timestamp(now),
        headline=f"{found.kind} {found.workload}{_says(found)}",
        remedy=remedies[0] if remedies else "",
        situation=tuple(_situation(found)),
        stopped_at=None if stop is None else stop.name,
    )


def _says(found: WorkloadDocument) -> str:
    """The sentence after the name of the workload."""
    stop = found.stopped
    if stop is not None and (stop.name == "wanted" or found.state == "failed"):
        return f" {stop.text}"
    if found.state == "idle":
        return " is complete"
    return ": " + "; ".join(_parts(found))


def _parts(found: WorkloadDocument) -> Iterator[str]:
    """The numbers with the first thing in the way, then whatever else keeps pods from running."""
    of = "" if found.wanted is None else f" of {found.wanted}"
    run = f"{found.running}{of} pods run"
    created = next((one for one in found.stages if one.name == "created" and one.state != "done"), None)
    if created is not None:
        yield f"{found.created}{of} pods exist: {created.text}"
    elif not found.causes:
        stop = found.stopped
        more = f" and {found.unexplained} do not" if found.unexplained else ""
        yield f"{run}: {stop.text}" if stop is not None else f"{run}{more}"
    for place, cause in enumerate(found.causes[:SHOWN]):
        lead = run if not place and created is None else _do_not_run(cause.count)
        yield f"{lead}: {reason_of(cause)}"
    left = found.causes[SHOWN:]
    if left:
        count = sum(cause.count for cause in left)
        yield f"{_do_not_run(count)} for {plural(len(left), 'other cause')}"


def _do_not_run(count: int) -> str:
    return plural(count, "pod does not run", "pods do not run")


def reason_of(cause: Cause) -> str:
    """Why the pods of a cause do not run, as the headline of one of them has it."""
    if cause.explanation is None:
        return cause.reason
    if cause.explanation.state == PLACED:
        return cause.explanation.cause or "not running yet"
    return cause.explanation.headline.partition(": ")[2] or cause.reason


def _situation(found: WorkloadDocument) -> Iterator[str]:
    if found.wanted is not None:
        yield f"wanted {found.wanted}"
    yield f"created {found.created}"
    yield f"placed {found.placed}"
    yield f"running {found.running}"
    for name in ("succeeded", "failed", "ending"):
        count = getattr(found, name)
        if count:
            yield f"{name} {count}"
