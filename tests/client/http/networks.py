"""A scheduler whose API server is behind a proxy that misbehaves."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stowplan.client import Retries
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.config.load import load
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing.proxy import MisbehavingProxy, WireFaults

Proxy = TypeVar("Proxy", bound=MisbehavingProxy)

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
"""


def make_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for minutes: neither before trying again nor for a word from a watch."""
    pause = Retries.next_pause
    monkeypatch.setattr(Retries, "next_pause", lambda self: pause(self) / 10)
    monkeypatch.setattr("stowplan.client.http.watch.SILENCE", 1.2)
    monkeypatch.setattr("stowplan.client.http.watch.INITIAL_SILENCE", 1.2)
    monkeypatch.setattr("stowplan.localcluster.apiserver.server.BOOKMARKS", 0.4)


def new_store(seed: int) -> Store:
    admission = ClusterAdmission(disabled=["TaintNodesByCondition"])
    store = Store(RealClock(), random.Random(seed), admission=admission)
    create_bootstrap_objects(store)
    return store


@asynccontextmanager
async def scheduling_through(
    proxy_type: type[Proxy],
    store: Store,
    folder: Path,
    trouble: WireFaults,
    seed: int,
    **settings: Any,
) -> AsyncIterator[tuple[Proxy, Scheduler]]:
    """A scheduler that runs as long as the block takes."""
    clock = RealClock()
    async with (
        ApiServer(store, Listening(), clock=clock, rng=random.Random(seed)) as server,
        proxy_type(server.port, server.certificate, trouble, random.Random(seed)) as proxy,
    ):
        assert isinstance(proxy, proxy_type)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(proxy.kubeconfig(server.token))
        async with HttpClient(
            load_kubeconfig(kubeconfig),
            clock=clock,
            rng=random.Random(seed),
            qps=-1,
            answer_seconds=1.0,
            connect_seconds=2.0,
            environ={},
        ) as client:
            scheduler = Scheduler(
                client, Settings.of(load(CONFIG), **settings), clock=clock, rng=random.Random(seed)
            )
            async with scheduler.running():
                yield proxy, scheduler
