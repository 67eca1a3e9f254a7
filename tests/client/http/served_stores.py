"""Our own API server over real sockets, with TLS and a token, in the same loop as the tests."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.apiserver.watch import BUFFER_LIMIT
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock


@asynccontextmanager
async def serving(
    folder: Path, watch_limit: int = BUFFER_LIMIT, **listening: Any
) -> AsyncIterator[tuple[Store, ApiServer, Path]]:
    clock = RealClock()
    store = Store(clock, random.Random(1), admission=ClusterAdmission(disabled=["TaintNodesByCondition"]))
    create_bootstrap_objects(store)
    async with ApiServer(
        store, Listening(**listening), clock=clock, rng=random.Random(1), watch_limit=watch_limit
    ) as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig())
        yield store, server, kubeconfig


def client_of(kubeconfig: Path, **options: Any) -> HttpClient:
    given = {"clock": RealClock(), "rng": random.Random(1), "qps": -1, "environ": {}}
    return HttpClient(load_kubeconfig(kubeconfig), **{**given, **options})


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/app:1"}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    return {"metadata": {"name": name}, "status": status}
