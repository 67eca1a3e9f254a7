"""A server in a separate thread, and the plainest of clients."""

import asyncio
import http.client
import json
import random
import ssl
import threading
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.requests import Json
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.admission.webhooks import WebhookStage
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.objects.usage import PretendUsage
from stowplan.localcluster.remote.calls import RemoteServers, RemoteSettings
from stowplan.localcluster.remote.conversion import ConversionWebhooks
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import RealClock
from waiting import PATIENCE

T = TypeVar("T")
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"


class Answer(NamedTuple):
    """Answer of the server."""

    code: int
    body: Any
    headers: Any


class Served:
    """A running server. `run` does something with its store, in its thread."""

    def __init__(self, server: ApiServer, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.store = store
        self._loop = loop

    def run(self, work: Callable[[Store], T]) -> T:
        async def there() -> T:
            return work(self.store)

        return self.wait(there())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the server's thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done in the server's thread meanwhile."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def connection(self) -> http.client.HTTPConnection:
        host, port = self.server.url.split("//")[1].split(":")
        certificate = self.server.certificate
        if certificate is None:
            return http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        context = ssl.create_default_context(cadata=certificate.decode())
        return http.client.HTTPSConnection(host, int(port), timeout=PATIENCE, context=context)

    def headers(self, **more: str) -> dict[str, str]:
        given = {"Authorization": f"Bearer {self.server.token}", "Content-Type": "application/json"}
        return given | {name.replace("_", "-"): value for name, value in more.items()}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request. A body that is not bytes is sent as JSON."""
        connection = self.connection()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, self.headers(**headers))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return Answer(response.status, json.loads(text) if is_json and text else text, response.headers)

    def create_pod(self, body: Json) -> None:
        self.run(lambda store: store.create(c.PODS, body, "default"))

    def watch(self, path: str) -> Generator[Any, None, None]:
        """The events of a watch, until the server ends it."""
        connection = self.connection()
        connection.request("GET", path, headers=self.headers())
        response = connection.getresponse()
        assert response.status == 200, response.read()
        try:
            for line in response:
                yield json.loads(line)
        finally:
            connection.close()


@contextmanager
def serving(
    *,
    plain: bool = True,
    admission: bool = True,
    open_to_all: bool = False,
    watch_limit: int = 1 << 24,
    stored_only: Collection[c.Resource] = (),
    usage: PretendUsage | None = None,
    groups: GroupFeatures | None = None,
    gates: FeatureGates = DEFAULT_GATES,
    remote: RemoteSettings | None = None,
    **store_options: Any,
) -> Iterator[Served]:
    """A server of the release of the gates for the duration of the block; without TLS by default, to be
    quick. With `remote`, webhooks are called."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    rules = ClusterAdmission(groups=groups, gates=gates) if admission else None
    if groups is not None:
        store_options["catalogue"] = groups.catalogue()
    store = Store(RealClock(), random.Random(1), admission=rules, **store_options, fields=FieldManager())
    create_bootstrap_objects(store)
    servers = RemoteServers(store, remote)
    webhooks = WebhookStage(store, servers)
    if remote is not None:
        store.definitions.converter = ConversionWebhooks(servers)
    if rules is not None and remote is not None:
        rules.stages = (*rules.stages, webhooks)
    listening = Listening(plain=plain, token="the-token", open_to_all=open_to_all)
    server = ApiServer(
        store,
        listening,
        rng=random.Random(1),
        watch_limit=watch_limit,
        stored_only=stored_only,
        usage=usage,
        release=gates.release,
        notices=(lambda resource, obj: ()) if remote is None else webhooks.notices,
    )
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(PATIENCE)
    try:
        yield Served(server, store, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(PATIENCE)
        asyncio.run_coroutine_threadsafe(servers.caller.close(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def pod(name: str = "", **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "registry.example/app:1"}], **more.pop("spec", {})}
    named = {"name": name} if name else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, **more}, "spec": spec}


def deployment(name: str, replicas: int = 2) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
