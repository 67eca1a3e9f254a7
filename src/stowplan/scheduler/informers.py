"""What a scheduler watches: a reflector for each kind of objects."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

from stowplan.api.fieldselector import FieldTerm
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import EVERY_OBJECT, Selection
from stowplan.client import Reader, Reflector
from stowplan.clock import Clock
from stowplan.scheduler.news import News, NodeNews, OtherNews, PodNews
from stowplan.scheduler.watched import NODES, PODS, Watched

UNFINISHED: Final = Selection(
    fields=tuple(FieldTerm("status.phase", phase, equal=False) for phase in ("Succeeded", "Failed"))
)
"""Pods that can still hold a node: one that has finished looks as if it were deleted."""


class Informers:
    """Reflectors for all kinds, and the pods they know.

    `report` is told of what goes wrong, `inform` of what goes right again.
    """

    def __init__(
        self,
        reader: Reader,
        news: News,
        kinds: Iterable[Watched],
        *,
        clock: Clock,
        rng: Random,
        report: Callable[[str], None],
        inform: Callable[[str], None] = lambda text: None,
    ) -> None:
        stream = reader.streams

        def reflector(kind: Watched, handler: Any, selection: Selection = EVERY_OBJECT) -> Reflector[Any]:
            return Reflector(
                reader,
                kind.served,
                kind.cls,
                handler,
                clock=clock,
                rng=rng,
                report=report,
                selection=selection,
                stream=stream,
                without=kind.without,
                inform=inform,
            )

        self.pods: Reflector[Pod] = reflector(PODS, PodNews(news), UNFINISHED)
        self.nodes: Reflector[Node] = reflector(NODES, NodeNews(news))
        by_kind = [(kind, reflector(kind, OtherNews(news, kind.event))) for kind in kinds]
        self.others = [one for _, one in by_kind]
        self._by_event: dict[str, Reflector[Any]] = {
            PODS.event: self.pods,
            NODES.event: self.nodes,
            **{kind.event or kind.served.kind: one for kind, one in by_kind},
        }

    @property
    def all(self) -> list[Reflector[Any]]:
        """Every reflector: what pods are placed by comes before the pods."""
        return [*self.others, self.nodes, self.pods]

    async def synced(self) -> None:
        """Wait until everything that exists has been heard of, but for kinds that the server does not give.

        Nodes and pods are waited for in any case. A server that has just started may refuse everything at
        first; so what was refused is asked for once more when they are there.
        """
        await self.nodes.wait_synced()
        await self.pods.wait_synced()
        for reflector in self.others:
            reflector.ask_again()
        for reflector in self.others:
            await reflector.wait_settled()

    def objects(self, kind: str) -> Mapping[str, Object]:
        """What is known of a kind, named as in events. Raises LookupError if it is not watched."""
        found = self._by_event.get(kind)
        if found is None:
            raise LookupError(f"objects of kind {kind!r} are not watched: register for its events")
        return found.objects

    def pod(self, key: str) -> Pod | None:
        return self.pods.objects.get(key)
