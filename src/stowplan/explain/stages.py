"""The layers that a pod passes: wanted, created, admitted, gated, queued, placed, bound, volumes, started.

The early ones follow from the document. What happens after the decision is told by other objects, see
`explain.layers`; it stands in the document's `stages` already.
"""

from collections.abc import Iterator
from typing import Final, get_args

from stowplan.explain.document.layers import Stage, StageName
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.states import FITS, GONE, PENDING, PLACED

ORDER: Final[tuple[StageName, ...]] = get_args(StageName)
"""The layers in the order in which they are passed."""
LATE: Final = ("volumes", "started")
"""The layers after the decision."""
_BEFORE_QUEUE: Final = ("gated", "incomplete")


def stages_of(found: PodDocument, cause: str, remedy: str) -> tuple[Stage, ...]:
    """The layers of a pod up to the one that stops it. `cause` and `remedy` are those of a pending pod."""
    if found.state == GONE:
        return ()
    return tuple(_until_stopped(_stages(found, cause, remedy)))


def _until_stopped(stages: Iterator[Stage]) -> Iterator[Stage]:
    for stage in stages:
        yield stage
        if stage.state == "stopped":
            return


def _stages(found: PodDocument, cause: str, remedy: str) -> Iterator[Stage]:
    for name in ("wanted", "created", "admitted"):
        yield Stage(name, "done")
    place = "" if found.queue is None else found.queue.place
    if found.state != PLACED and (found.gates or (place in _BEFORE_QUEUE and not found.missing)):
        yield Stage("gated", "stopped", cause, remedy)
    yield Stage("gated", "done")
    if found.state == PENDING and found.missing:
        yield Stage("queued", "stopped", cause, remedy)
    if found.state == PENDING and found.decider is not None and found.decider.kind in ("nobody", "unknown"):
        yield Stage("queued", "stopped", cause, remedy)
    yield Stage("queued", "done")
    if found.state == PENDING and found.refusal is not None:
        yield from (Stage("placed", "done"), Stage("bound", "stopped", cause, remedy))
    if found.state == PENDING and place != "waiting":
        yield Stage("placed", "stopped", cause, remedy)
    if found.state == FITS:
        return
    yield Stage("placed", "done")
    late = [stage for stage in found.stages if stage.name in LATE]
    yield from (stage for stage in found.stages if stage.name == "bound" and stage.state == "stopped")
    if place == "waiting":
        yield Stage("bound", "stopped", cause, remedy)
    if place != "binding":
        yield Stage("bound", "done")
    yield from late
