"""Calls of several extenders: which are called, in which order, and what an error means."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.gocompat.numbers import wrap_int64
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.extenders.interface import Extender, Filtered
from stowplan.scheduler.extenders.requests import (
    AskFilter,
    AskPreempt,
    AskPrioritize,
    ExtenderError,
    ExtenderScores,
    FilterRound,
    FindPod,
    Ignored,
    PreemptRound,
    PrioritizeRound,
)
from stowplan.scheduler.framework.budget import Request
from stowplan.scheduler.framework.interface import Victims
from stowplan.scheduler.framework.status import Status, unresolvable, unschedulable

SCORE_FACTOR: Final = 10
"""Extenders score up to 10, plugins up to 100."""

LEFT_OUT: Final = unresolvable()
"""The status of a node that an extender dropped without a reason."""


@dataclass(frozen=True, slots=True)
class BindRound:
    """The extender that bound the pod, None if a Bind plugin has to."""

    binder: str | None
    ignored: Ignored = ()


async def answer(request: Request, extenders: Sequence[Extender]) -> object:
    """Ask the extenders what the scheduling cycle wants to know. Raises ExtenderError."""
    match request:
        case AskFilter(pod, nodes, left_out):
            return await filter_round(extenders, pod, nodes, LEFT_OUT if left_out is None else left_out)
        case AskPrioritize(pod, nodes):
            return await prioritize_round(extenders, pod, nodes)
        case AskPreempt(pod, candidates, find):
            asked = [one for one in extenders if one.supports_preemption and one.is_interested(pod)]
            return await preempt_round(asked, pod, candidates, find) if asked else None
        case _:
            raise TypeError(f"not a request to extenders: {request!r}")


async def filter_round(
    extenders: Iterable[Extender],
    pod: Pod,
    nodes: Sequence[Node],
    left_out: Status = LEFT_OUT,
) -> FilterRound:
    """Call one extender after the other, each with the nodes that the ones before it kept.

    `left_out` is the status of nodes that a response does not mention: without a reason, unless PreFilter
    returned node names; then it is the status of all other nodes. Raises ExtenderError.
    """
    left = {node.name: node for node in nodes}
    fresh: dict[str, Node] = {}
    verdicts: dict[str, Status] = {}
    ignored: list[tuple[str, ExtenderError]] = []
    for extender in extenders:
        if not left:
            break
        if not extender.is_interested(pod):
            continue
        try:
            answer = await extender.filter(pod, list(left.values()))
            _check_names(extender, answer, left)
        except ExtenderError as error:
            _note_ignored(extender, error, ignored)
            continue
        verdicts.update({name: unschedulable(reason) for name, reason in answer.failed.items()})
        verdicts.update({name: unresolvable(reason) for name, reason in answer.unresolvable.items()})
        if answer.nodes is not None:
            fresh = {node.name: node for node in answer.nodes}
        left = {name: fresh.get(name, left[name]) for name in answer.kept}
    for node in nodes:
        if node.name not in left:
            verdicts.setdefault(node.name, left_out)
    return FilterRound(
        tuple(left),
        {name: verdict for name, verdict in verdicts.items() if name not in left},
        {name: node for name, node in fresh.items() if name in left},
        ignored,
    )


async def prioritize_round(extenders: Iterable[Extender], pod: Pod, nodes: Sequence[Node]) -> PrioritizeRound:
    """Call all extenders concurrently. One that fails gives no scores."""
    asked = [extender for extender in extenders if extender.is_interested(pod)]
    answers = await asyncio.gather(*(_prioritize(extender, pod, nodes) for extender in asked))
    scores: list[ExtenderScores] = []
    ignored: list[tuple[str, ExtenderError]] = []
    for extender, answer in zip(asked, answers, strict=True):
        if isinstance(answer, ExtenderError):
            ignored.append((extender.name, answer))
        elif answer:
            scores.append(ExtenderScores(extender.name, answer))
    return PrioritizeRound(tuple(scores), ignored)


async def bind_round(extenders: Iterable[Extender], pod: Pod, node: str) -> BindRound:
    """Have the first interested binder bind the pod. Raises ExtenderError.

    If an ignorable one fails, the next is called.
    """
    ignored: list[tuple[str, ExtenderError]] = []
    for extender in extenders:
        if not extender.is_binder or not extender.is_interested(pod):
            continue
        try:
            await extender.bind(pod, node)
        except ExtenderError as error:
            _note_ignored(extender, error, ignored)
            continue
        return BindRound(extender.name, ignored)
    return BindRound(None, ignored)


async def preempt_round(
    extenders: Iterable[Extender], pod: Pod, candidates: Mapping[str, Victims], find: FindPod
) -> PreemptRound:
    """Call one extender after the other, each with the candidates the ones before it accepted.

    A candidate without victims is an error, or dropped if the extender is ignorable. Candidates keep their
    order. Raises ExtenderError.
    """
    order = {name: place for place, name in enumerate(candidates)}
    left = dict(candidates)
    ignored: list[tuple[str, ExtenderError]] = []
    for extender in extenders:
        if not left:
            break
        if not extender.supports_preemption or not extender.is_interested(pod):
            continue
        try:
            answer = await extender.preempt(pod, left, find)
        except ExtenderError as error:
            _note_ignored(extender, error, ignored)
            continue
        left = {}
        for name in sorted(answer, key=lambda name: (order.get(name, len(order)), name)):
            if answer[name].pods:
                left[name] = answer[name]
            else:
                _note_ignored(extender, _no_victims(name), ignored)
    return PreemptRound(left, ignored)


async def _prioritize(
    extender: Extender, pod: Pod, nodes: Sequence[Node]
) -> Mapping[str, int] | ExtenderError:
    try:
        raw = await extender.prioritize(pod, nodes)
    except ExtenderError as error:
        return error
    factor = extender.weight * SCORE_FACTOR
    return {node.name: wrap_int64(raw[node.name] * factor) for node in nodes if node.name in raw}


def _note_ignored(extender: Extender, error: ExtenderError, ignored: list[tuple[str, ExtenderError]]) -> None:
    """Note the error of an ignorable extender; raise that of any other."""
    if not extender.is_ignorable:
        raise error
    ignored.append((extender.name, error))


def _check_names(extender: Extender, answer: Filtered, asked: Mapping[str, Node]) -> None:
    for name in answer.kept:
        if name not in asked:
            raise ExtenderError(
                f"extender {quote(extender.name)} claims a filtered node {quote(name)} "
                "which is not found in the input node list"
            )


def _no_victims(node: str) -> ExtenderError:
    return ExtenderError(f"expected at least one victim pod on node {quote(node)}")
