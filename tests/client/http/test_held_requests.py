"""Requests of a patient client while its server is gone: held, and sent when it is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from client.http.served_stores import client_of, node, pod, serving
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import ObjectMeta
from stowplan.api.node import Node
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.client.http import HttpClient, availability
from stowplan.localcluster.store import Store
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.testing.proxy import OutageProxy
from waiting import PATIENCE, eventually

BINDING = Binding(
    metadata=ObjectMeta(namespace="default", name="web"), target=ObjectReference(kind="Node", name="n")
)
OUTAGE = 5.0
SOON = 15.0


@asynccontextmanager
async def world(folder: Path, **options: Any) -> AsyncIterator[tuple[Store, OutageProxy, HttpClient]]:
    async with serving(folder) as (store, server, kubeconfig), OutageProxy(server.port) as proxy:
        kubeconfig.write_text(kubeconfig.read_text().replace(f":{server.port}", f":{proxy.port}"))
        store.create(NODES, node("n"))
        store.create(PODS, pod("web"))
        async with client_of(kubeconfig, **{"patient": True, **options}) as client:
            await client.get(NODES, "", "n")
            await client.is_reachable()
            yield store, proxy, client


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("cut", [OutageProxy.refuse, OutageProxy.vanish])
def test_reads_and_repeatable_writes_are_done_soon_after_the_server_is_back(tmp_path: Path, cut: Any) -> None:
    async def story() -> None:
        async with world(tmp_path) as (store, proxy, client):
            cut(proxy)
            status = {"status": {"nominatedNodeName": "n"}}
            requests = [
                asyncio.create_task(client.get(NODES, "", "n")),
                asyncio.create_task(client.patch(PODS, "default", "web", status, subresource="status")),
                asyncio.create_task(client.bind(BINDING)),
            ]
            await asyncio.sleep(OUTAGE)
            assert not any(request.done() for request in requests)
            assert cut is OutageProxy.vanish or not client.availability.is_reachable
            await proxy.restore()
            returned = now()
            await asyncio.gather(*requests)
            assert now() - returned < SOON
            assert store.get(PODS, "default", "web")["spec"]["nodeName"] == "n"

    asyncio.run(story())


def test_a_create_that_was_not_sent_is_held_and_one_whose_answer_is_lost_fails(tmp_path: Path) -> None:
    async def story() -> None:
        async with world(tmp_path) as (store, proxy, client):
            proxy.vanish()
            lost = asyncio.create_task(client.create(NODES, node("lost")))
            await asyncio.sleep(OUTAGE)
            proxy.refuse()
            held = asyncio.create_task(client.create(NODES, node("held")))
            with pytest.raises(ApiError, match="nodes"):
                await lost
            await asyncio.sleep(0.5)
            assert not held.done()
            await proxy.restore()
            await held
            assert {one["metadata"]["name"] for one in store.list(NODES).items} == {"n", "held"}

    asyncio.run(story())


def test_a_write_is_not_sent_when_it_is_not_ours_to_do_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        leads = True
        async with world(tmp_path, may_write=lambda: leads) as (store, proxy, client):
            proxy.refuse()
            binding, reading = (
                asyncio.create_task(client.bind(BINDING)),
                asyncio.create_task(client.get(NODES, "", "n")),
            )
            await eventually(lambda: not client.availability.is_reachable)
            leads = False
            await proxy.restore()
            with pytest.raises(ApiError, match="held while the server was gone"):
                await binding
            await reading
            with pytest.raises(ApiError, match="not sent: another process may lead by now"):
                await client.bind(BINDING)
            assert "nodeName" not in store.get(PODS, "default", "web")["spec"]

    asyncio.run(story())


def test_a_client_that_is_not_patient_fails_as_ever(tmp_path: Path) -> None:
    async def story() -> None:
        async with world(tmp_path, patient=False) as (_, proxy, client):
            proxy.refuse()
            with pytest.raises(ApiError, match="connection refused"):
                await client.get(NODES, "", "n")

    asyncio.run(story())


@pytest.mark.parametrize(("cut", "most"), [(OutageProxy.refuse, 3000), (OutageProxy.vanish, 9000)])
def test_hundreds_of_probes_leave_no_memory_behind(
    tmp_path: Path, cut: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the collector set as a scheduler sets it: what probes leave behind must not wait for it.

    Of a network that swallows packets the other side is in this process, too.
    """
    monkeypatch.setattr(availability, "PROBE_EVERY", 0.01)
    monkeypatch.setattr(availability, "GONE_AFTER", 0.5)

    async def story() -> None:
        async with world(tmp_path) as (_, proxy, client):
            reading = asyncio.create_task(client.get(NODES, "", "n"))
            await reading
            with calm_collector():
                cut(proxy)
                reading = asyncio.create_task(client.get(NODES, "", "n"))
                await asyncio.sleep(4)
                before = _resident()
                await asyncio.sleep(5)
                assert _resident() - before < most
                await proxy.restore()
                await reading

    asyncio.run(story())


def _resident() -> int:
    """Resident memory in KiB."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1])


def test_a_watch_on_a_dead_connection_ends_without_an_error_and_is_resumed(tmp_path: Path) -> None:
    async def story() -> None:
        async with world(tmp_path) as (store, proxy, client):
            watch = client.watch(NODES, Node, since=str(store.version))
            waiting = asyncio.ensure_future(anext(watch, None))
            await asyncio.sleep(2.5)
            proxy.vanish()
            await proxy.restore()
            async with asyncio.timeout(PATIENCE):
                assert await waiting is None
            store.create(NODES, node("m"))
            again = client.watch(NODES, Node, since="1")
            assert (await anext(again)).key
            await again.aclose()

    asyncio.run(story())
