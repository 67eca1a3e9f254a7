"""Requests of the scheduling cycle to extenders, and their answers.

The cycle itself sends nothing: it yields a request and is resumed with the answer (`rounds.answer`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.budget import Request
from stowplan.scheduler.framework.interface import Victims
from stowplan.scheduler.framework.status import Status

FindPod = Callable[[str, str], Pod | None]
"""The pod with a uid on a named node, None if it is not there. Raises LookupError for an unknown node."""


class ExtenderError(Exception):
    """A call of an extender failed: no response, an error, or an invalid response."""


Ignored = Sequence[tuple[str, ExtenderError]]
"""Ignored errors with the names of the extenders, for the log."""


@dataclass(frozen=True, slots=True)
class AskFilter(Request):
    """Filter: answered with a FilterRound, or ExtenderError is raised.

    `left_out` is the status of nodes that a response does not mention, None for the usual one.
    """

    pod: Pod
    nodes: Sequence[Node]
    left_out: Status | None = None


@dataclass(frozen=True, slots=True)
class FilterRound:
    """The result of filter over all extenders.

    `kept` are names in the order of the last response. `verdicts` has the status of every other node. A
    response can name nodes that were not in the request; they are in it, too: in kube-scheduler such a status
    replaces the one of a plugin. `fresh` are the kept nodes that came back as objects; kube-scheduler scores
    them as if no pod were on them.
    """

    kept: tuple[str, ...]
    verdicts: Mapping[str, Status]
    fresh: Mapping[str, Node]
    ignored: Ignored = ()


@dataclass(frozen=True, slots=True)
class AskPrioritize(Request):
    """Prioritize: answered with a PrioritizeRound."""

    pod: Pod
    nodes: Sequence[Node]


@dataclass(frozen=True, slots=True)
class ExtenderScores:
    """An extender's scores, weighted and scaled to the range of plugin scores."""

    extender: str
    scores: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PrioritizeRound:
    """The scores of the extenders, in calling order."""

    scores: tuple[ExtenderScores, ...]
    ignored: Ignored = ()


@dataclass(frozen=True, slots=True)
class AskPreempt(Request):
    """Preempt: answered with a PreemptRound, None if no extender has a say; or ExtenderError is raised."""

    pod: Pod
    candidates: Mapping[str, Victims]
    find: FindPod


@dataclass(frozen=True, slots=True)
class PreemptRound:
    """The candidates that all extenders accept."""

    candidates: Mapping[str, Victims]
    ignored: Ignored = ()
