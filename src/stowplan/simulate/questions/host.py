"""Questions at a running scheduler: rights and limits, and a forked process for each.

The process has the scheduler's objects as they are between two of its turns. It builds a simulated cluster of
them, answers, and ends; the scheduler runs meanwhile. Objects that no scheduler watches (quotas, limits,
priority classes) are read before, as far as the viewer may read them.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object
from stowplan.api.status import ApiError
from stowplan.explain.document.tried import TryLimits
from stowplan.explain.layers.reads import ClientReads, ReadBefore
from stowplan.explain.layers.webhooks import WebhookConfiguration
from stowplan.explain.layout import plural
from stowplan.explain.web.access import Viewer
from stowplan.explain.web.documents import Inspection
from stowplan.explain.web.questions import Answered, Asked
from stowplan.runtime.forked import (
    AbandonedError,
    Bounds,
    ForkedWorkError,
    OutOfMemoryError,
    OutOfTimeError,
    run_forked,
)
from stowplan.scheduler import Scheduler

if TYPE_CHECKING:
    from stowplan.simulate.questions.answers import Facts

_log: Final = logging.getLogger(__name__)
_MOST_NAMESPACES: Final = 50
"""Namespaces in which quotas and limits are read for viewers who may not read those of all."""
_RETRY_AFTER: Final = 2
_MIB: Final = 1 << 20
_WEBHOOKS: Final = (
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS,
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS,
)


class ForkedQuestions:
    """Answers questions in forked processes, `at_once` of them at a time."""

    def __init__(self, limits: TryLimits | None = None, *, at_once: int = 2) -> None:
        self.limits = limits or TryLimits()
        self._at_once = at_once
        self._running: set[asyncio.Task[Any]] = set()

    @staticmethod
    def load() -> None:
        """Load the engine, which the first question would do otherwise."""
        import_module("stowplan.simulate.questions.answers")

    @property
    def running(self) -> int:
        """Number of questions that are being answered."""
        return len(self._running)

    def close(self) -> None:
        """End the processes that run."""
        for task in self._running:
            task.cancel()

    async def answer(
        self, asked: Asked, inspection: Inspection, viewer: Viewer, gone: Callable[[], bool]
    ) -> Answered:
        """The answer; 429 if others are being answered. Raises ApiError."""
        if self.running >= self._at_once:
            busy = ApiError(
                429, "TooManyRequests", f"{plural(self.running, 'question')} being answered: try again"
            )
            return Answered(429, msgspec.json.encode(busy.status()), _RETRY_AFTER)
        task = asyncio.create_task(self._answer(asked, inspection, viewer, gone), name="question")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if task.cancelled():
            raise ApiError(503, "ServiceUnavailable", "the server is shutting down")
        return task.result()

    async def _answer(
        self, asked: Asked, inspection: Inspection, viewer: Viewer, gone: Callable[[], bool]
    ) -> Answered:
        from stowplan.simulate.questions.answers import Outcome, answer

        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limits.seconds
        try:
            async with asyncio.timeout_at(deadline):
                facts = await facts_for(inspection, viewer, self.limits)
        except TimeoutError:
            raise self._late() from None
        bounds = Bounds(max(deadline - loop.time(), 0.0), self.limits.memory * _MIB)
        try:
            found = await run_forked(partial(answer, facts, asked), bounds, gone)
        except OutOfTimeError:
            raise self._late() from None
        except OutOfMemoryError as error:
            raise ApiError(507, "InsufficientStorage", str(error)) from None
        except AbandonedError:
            raise ApiError(499, "ClientClosedRequest", "nobody waits for the answer") from None
        except ForkedWorkError as error:
            _log.error("question %s: %s", asked.question, error)
            raise ApiError(
                500, "InternalError", f"{asked.question}: no answer could be computed: see the server's log"
            ) from None
        head, _, document = found.partition(b"\n")
        outcome = msgspec.json.decode(head, type=Outcome)
        for namespace in outcome.namespaces:
            if not await viewer.may_see(namespace):
                text = f'reading pods in the namespace "{namespace}" is not allowed'
                raise ApiError(403, "Forbidden", f"pods is forbidden: {text}")
        return Answered(outcome.code, document)

    def _late(self) -> ApiError:
        text = f"not answered within {self.limits.seconds:g} s: ask about less"
        return ApiError(504, "Timeout", text)


async def facts_for(inspection: Inspection, viewer: Viewer, limits: TryLimits) -> "Facts":
    """Everything that answers to a viewer are made from. Raises ApiError."""
    from stowplan.simulate.questions.answers import Facts

    hidden: frozenset[str] = frozenset()
    if not await viewer.may_see_all_pods():
        hidden = await viewer.hidden(inspection.named_namespaces() | inspection.all_namespaces())
    scheduler = inspection.scheduler
    if scheduler is None:
        raise ApiError(503, "ServiceUnavailable", "the scheduler has not read the cluster yet")
    more = await _read_more(scheduler, viewer, lambda: inspection.all_namespaces() - hidden)
    # The fork that comes next takes as long as a step of other explanations.
    await asyncio.sleep(0)
    return Facts(
        settings=scheduler.settings,
        objects=lambda: (*objects_of(scheduler), *more.objects),
        reads=ReadBefore((*_others(scheduler), *more.objects), more.webhooks, more.unread),
        now=scheduler.context.clock.now(),
        hidden=hidden,
        limits=limits,
    )


def objects_of(scheduler: Scheduler) -> Iterator[Object]:
    """The objects of a scheduler, with pods on the nodes that they are assumed on."""
    table = scheduler.context.cache.table
    yield from scheduler.informers.nodes.objects.values()
    yield from _others(scheduler)
    for pod in scheduler.informers.pods.objects.values():
        known = None if pod.spec.node_name else table.pods.get(pod.metadata.uid)
        if known is not None and known.row >= 0:
            pod = replace(pod, spec=replace(pod.spec, node_name=table.names[known.row]))
        yield pod


def _others(scheduler: Scheduler) -> Iterator[Object]:
    for reflector in scheduler.informers.others:
        yield from reflector.objects.values()


class _More(NamedTuple):
    """Objects that admission reads and the scheduler does not watch, and why others are not known."""

    objects: Sequence[Object]
    webhooks: Mapping[Resource, Sequence[Object]]
    unread: Mapping[str, str]


async def _read_more(
    scheduler: Scheduler, viewer: Viewer, namespaces: Callable[[], Collection[str]]
) -> _More:
    from stowplan.simulate.snapshot.sources import ADMISSION

    reads = ClientReads(scheduler.context.client, viewer.may_list)
    found: list[Object] = []
    effects = {kind.served.plural: kind.without for kind in ADMISSION}
    for kind in ADMISSION:
        places: Collection[str] = ("",)
        if kind.served.namespaced and not await viewer.may_list(kind.served, ""):
            places = namespaces()
        for namespace in sorted(places)[:_MOST_NAMESPACES]:
            found += await reads.list(kind.served, kind.cls, namespace)
        if len(places) > _MOST_NAMESPACES:
            text = f"{kind.served.plural} were read in {_MOST_NAMESPACES} of {len(places)} namespaces"
            reads.unread.setdefault(kind.served.plural, text)
    webhooks = {one: await reads.list(one, WebhookConfiguration) for one in _WEBHOOKS}
    unread = {
        plural: f"{text}: {effects[plural]}" if plural in effects else text
        for plural, text in reads.unread.items()
    }
    return _More(found, webhooks, unread)
