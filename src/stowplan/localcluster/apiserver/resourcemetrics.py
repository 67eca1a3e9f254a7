"""metrics.k8s.io: the pretended usage of pods and nodes, computed on request. `kubectl top` shows it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import timestamp
from stowplan.api.requests import EVERY_OBJECT, Json
from stowplan.localcluster.apiserver.request import RequestTarget, flag, list_options
from stowplan.localcluster.apiserver.responses import json_response
from stowplan.localcluster.objects.usage import NODE_METRICS, POD_METRICS, WINDOW, PretendUsage, usage_list
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import Clock

METRICS: Final = (POD_METRICS, NODE_METRICS)


class ResourceMetricsApi:
    """Answers requests for the usage of pods and nodes."""

    def __init__(self, store: Store, usage: PretendUsage, clock: Clock) -> None:
        self._store = store
        self._usage = usage
        self._clock = clock
        for resource in METRICS:
            store.catalogue.register(resource)

    def answer(self, target: RequestTarget, query: Mapping[str, str]) -> web.Response:
        """One object's metrics, or those of all that match."""
        if flag(query, "watch"):
            raise status.ApiError(405, "MethodNotAllowed", "metrics cannot be watched")
        resource = target.resource
        if target.name:
            found = self._one(target)
            if found is None:
                raise status.not_found(resource, target.name)
            return json_response({"kind": resource.kind, "apiVersion": resource.api_version, **found})
        selection = list_options(query).selection if query else EVERY_OBJECT
        stored = PODS if resource == POD_METRICS else NODES
        objects = self._store.list(stored, target.namespace, selection).items
        items = self._pods(objects) if resource == POD_METRICS else self._nodes(objects)
        return json_response(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": {},
                "items": list(items),
            }
        )

    def _one(self, target: RequestTarget) -> Json | None:
        is_node = target.resource == NODE_METRICS
        found = self._store.find(NODES if is_node else PODS, target.namespace, target.name)
        if found is None:
            return None
        return next(iter(self._nodes([found]) if is_node else self._pods([found])), None)

    def _pods(self, pods: Iterable[Json]) -> Iterable[Json]:
        for pod in pods:
            used = self._usage.of(pod)
            if used is not None:
                containers = [{"name": one.name, "usage": usage_list(one.cpu, one.memory)} for one in used]
                yield {**self._head(pod), "containers": containers}

    def _nodes(self, nodes: Sequence[Json]) -> Iterable[Json]:
        """Usage of the pods on each node; all pods are read once."""
        used = {node["metadata"]["name"]: [0, 0] for node in nodes}
        for pod in self._store.all(PODS):
            total = used.get(pod["spec"].get("nodeName", ""))
            if total is not None:
                for one in self._usage.of(pod) or ():
                    total[0] += one.cpu
                    total[1] += one.memory
        for node in nodes:
            yield {**self._head(node), "usage": usage_list(*used[node["metadata"]["name"]])}

    def _head(self, obj: Json) -> Json:
        metadata = obj["metadata"]
        now = timestamp(self._clock.now())
        kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
        return {
            "metadata": {**kept, "creationTimestamp": now},
            "timestamp": now,
            "window": f"{WINDOW:.0f}s",
        }
