"""The API: from a path and a query to a document, for a viewer. Knows nothing of HTTP servers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from stowplan.api.catalogue import NODES, PODS, Resource
from stowplan.api.meta import seconds_of
from stowplan.api.status import ApiError
from stowplan.explain.document.objects import EventsDocument
from stowplan.explain.document.schema import json_schema
from stowplan.explain.layers.reads import ClientReads, ObjectReads
from stowplan.explain.web.access import Viewer
from stowplan.explain.web.documents import MOST_PODS, Inspection
from stowplan.explain.web.objects import events_document, object_document
from stowplan.explain.web.questions import Answered, Asked, Questions
from stowplan.explain.web.redaction import namespaces_in, redacted
from stowplan.explain.web.workloads import KINDS as WORKLOADS
from stowplan.explain.web.workloads import WorkloadNames, workload

PREFIX: Final = "/stowplan/v1"
STATES: Final = ("", "placed", "waiting")

Query = Mapping[str, str]


class Answer(NamedTuple):
    """A status code and what goes with it: a document, a Kubernetes object, the configuration, the schema."""

    code: int
    document: Any


Config = Callable[[], Any]
_Route = Callable[[Viewer, Query], Awaitable[Any]]


class Routes:
    """Everything that can be asked below `/stowplan/v1`, except the stream.

    `questions` answers what is tried on a copy of the cluster.
    """

    def __init__(self, inspection: Inspection, config: Config, questions: Questions | None = None) -> None:
        self.inspection = inspection
        self._config = config
        self._workload_names = WorkloadNames(inspection)
        self._questions = questions
        self._fixed: Mapping[str, _Route] = {
            "": self._overview,
            "nodes": self._nodes,
            "pods": self._pods,
            "podgroups": self._groups,
            "workloads": self._workloads,
            "attention": self._attention,
            "pending": self._pending,
            "queue": self._queue,
            "decisions": self._decisions,
            "costs": self._costs,
            "config": self._effective_config,
            "schema": self._schema,
        }

    async def answer(self, path: str, query: Query, viewer: Viewer) -> Answer:
        """Answer to a GET of a path. Errors are Kubernetes Status objects."""
        try:
            document = await self._find(path, query, viewer)
            if await viewer.may_see_all_pods():
                return Answer(200, document)
            named = namespaces_in(document) & self.inspection.named_namespaces()
            return Answer(200, redacted(document, await viewer.hidden(named)))
        except ApiError as error:
            return Answer(error.code, error.status())

    async def ask(self, asked: Asked, viewer: Viewer, gone: Callable[[], bool]) -> Answered:
        """Answer to a question by POST. Raises ApiError."""
        if self._questions is None:
            raise ApiError(404, "NotFound", "this server answers no questions on copies of its cluster")
        if asked.question != "explain":
            await viewer.require_nodes()
        return await self._questions.answer(asked, self.inspection, viewer, gone)

    def close(self) -> None:
        """End streams and questions, so that a server that stops need not wait for them."""
        self.inspection.feed.close()
        if self._questions is not None:
            self._questions.close()

    async def _find(self, path: str, query: Query, viewer: Viewer) -> Any:
        rest = path.removeprefix(PREFIX).strip("/")
        route = self._fixed.get(rest)
        if route is not None:
            return await route(viewer, query)
        match rest.split("/"):
            case ["nodes", name]:
                return await self._node(viewer, name)
            case ["moments", time]:
                await viewer.require_nodes()
                until = query.get("until")
                found_then = self.inspection.moment(_time(time), None if until is None else _time(until))
                return _found(found_then, "moments", time)
            case ["nodes", name, "object"]:
                viewer.require_objects()
                await viewer.require_nodes()
                return _found(await self._object(viewer, NODES, "", name), "nodes", name)
            case ["nodes", name, "events"]:
                await viewer.require_nodes()
                return await self._events(viewer, NODES, "", name)
            case ["pods", namespace, name, "events"]:
                await viewer.require_pod(namespace, name)
                return await self._events(viewer, PODS, namespace, name)
            case ["pods", namespace, name, "object"]:
                viewer.require_objects()
                await viewer.require_pod(namespace, name)
                return _found(await self._object(viewer, PODS, namespace, name), "pods", name)
            case ["pods", namespace, name]:
                await viewer.require_pod(namespace, name)
                found = await self.inspection.pod(namespace, name, self._reads(viewer))
                return _found(found, "pods", name)
            case ["podgroups" | "compositepodgroups" as plural, namespace, name]:
                await viewer.require_pod(namespace, name)
                group = await self.inspection.group(plural.removesuffix("s"), namespace, name)
                return _found(group, plural, name)
            case ["podgroups" | "compositepodgroups" as plural, namespace, name, "map"]:
                await viewer.require_pod(namespace, name)
                await viewer.require_nodes()
                return _found(
                    self.inspection.group_map(plural.removesuffix("s"), namespace, name), plural, name
                )
            case [plural, namespace, name] if plural in WORKLOADS:
                await viewer.require_pod(namespace, name)
                answer = await workload(
                    self.inspection, WORKLOADS[plural], namespace, name, self._reads(viewer)
                )
                return _found(answer, plural, name)
            case ["pods", namespace, name, "map"]:
                await viewer.require_pod(namespace, name)
                await viewer.require_nodes()
                return _found(self.inspection.map(namespace, name), "pods", name)
        raise ApiError(404, "NotFound", "the server could not find the requested resource")

    def _reads(self, viewer: Viewer) -> ObjectReads | None:
        """Reading what the scheduler does not watch, as far as a viewer may."""
        scheduler = self.inspection.scheduler
        return None if scheduler is None else ClientReads(scheduler.context.client, viewer.may_list)

    async def _object(self, viewer: Viewer, resource: Resource, namespace: str, name: str) -> Any:
        """An object as the API server has it; the scheduler reads it, with the rights of the viewer."""
        scheduler = self.inspection.scheduler
        if scheduler is None:
            return None
        client = scheduler.context.client
        pod = scheduler.pod(f"{namespace}/{name}") if resource is PODS else None
        info = None if pod is None else scheduler.context.cache.table.info(pod)
        reads = ClientReads(client, viewer.may_list)
        return await object_document(client, reads, resource, namespace, name, info)

    async def _events(self, viewer: Viewer, resource: Resource, namespace: str, name: str) -> EventsDocument:
        reads = self._reads(viewer)
        return EventsDocument() if reads is None else await events_document(reads, resource, namespace, name)

    # Routes

    async def _overview(self, viewer: Viewer, query: Query) -> Any:
        found = self.inspection.overview()
        return found if await viewer.may_see_nodes() else found.without_totals()

    async def _nodes(self, viewer: Viewer, query: Query) -> Any:
        await viewer.require_nodes()
        return self.inspection.nodes()

    async def _attention(self, viewer: Viewer, query: Query) -> Any:
        await viewer.require_nodes()
        return self.inspection.attention()

    async def _node(self, viewer: Viewer, name: str) -> Any:
        await viewer.require_nodes()
        visible = await viewer.visible(self.inspection.namespaces())
        return _found(await self.inspection.node(name, visible), "nodes", name)

    async def _pods(self, viewer: Viewer, query: Query) -> Any:
        visible = await self._visible(viewer, query)
        state = query.get("state", "")
        if state not in STATES:
            raise ApiError(400, "BadRequest", f"state: expected placed or waiting, got {state!r}")
        return await self.inspection.pods(visible, query.get("search", ""), state, _limit(query))

    async def _groups(self, viewer: Viewer, query: Query) -> Any:
        return self.inspection.groups(
            await self._visible(viewer, query), query.get("search", ""), _limit(query)
        )

    async def _workloads(self, viewer: Viewer, query: Query) -> Any:
        return await self._workload_names.found(viewer, query.get("search", ""), _limit(query))

    async def _visible(self, viewer: Viewer, query: Query) -> frozenset[str]:
        """The namespaces that a list may be of: all that may be seen, or the one that is asked for."""
        namespaces, wanted = self.inspection.namespaces(), query.get("namespace", "")
        return await viewer.visible({wanted} & namespaces if wanted else namespaces)

    async def _pending(self, viewer: Viewer, query: Query) -> Any:
        visible = await viewer.visible(self.inspection.all_namespaces())
        return await self.inspection.pending(visible, self._reads(viewer))

    async def _queue(self, viewer: Viewer, query: Query) -> Any:
        visible = await viewer.visible(self.inspection.namespaces())
        return self.inspection.queue(visible, whole=await viewer.may_see_nodes())

    async def _decisions(self, viewer: Viewer, query: Query) -> Any:
        visible = await viewer.visible(self.inspection.namespaces())
        return self.inspection.decisions(visible, _limit(query, 100), whole=await viewer.may_see_nodes())

    async def _costs(self, viewer: Viewer, query: Query) -> Any:
        visible = await viewer.visible(self.inspection.namespaces() | self.inspection.cost_namespaces())
        return self.inspection.costs(visible, _limit(query, 100), whole=await viewer.may_see_nodes())

    async def _effective_config(self, viewer: Viewer, query: Query) -> Any:
        await viewer.require_nodes()
        return self._config()

    async def _schema(self, viewer: Viewer, query: Query) -> Any:
        return json_schema()


def _limit(query: Query, default: int = MOST_PODS) -> int:
    text = query.get("limit", str(default))
    if not text.isdecimal() or len(text) > 9:
        raise ApiError(400, "BadRequest", f"limit: expected a whole number, got {text[:40]!r}")
    return int(text)


def _time(text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError:
        raise ApiError(
            400, "BadRequest", f"expected a time such as 2026-01-31T12:00:00Z, got {text[:40]!r}"
        ) from None


def _found(document: Any, plural: str, name: str) -> Any:
    if document is None:
        raise ApiError(
            404, "NotFound", f'{plural} "{name[:253]}" not found', {"name": name[:253], "kind": plural}
        )
    return document
