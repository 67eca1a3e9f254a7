"""The client that fails on purpose fails as it says."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from client.reflected_store import pod
from stowplan.api import catalogue as c
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import DEFAULT_START, VirtualClock, run
from stowplan.testing.faults import Faults, FaultyClient

Main = Callable[[FaultyClient, Store, VirtualClock], Coroutine[Any, Any, None]]


def with_faults(main: Main, faults: Faults) -> None:
    async def begin(clock: VirtualClock) -> None:
        store = Store(clock, random.Random(1))
        await main(FaultyClient(InProcessClient(store), faults, random.Random(2)), store, clock)

    run(begin)


def test_a_refused_request_has_no_effect() -> None:
    async def main(client: FaultyClient, store: Store, clock: VirtualClock) -> None:
        with pytest.raises(ApiError, match="injected"):
            await client.create(c.PODS, pod("p"))
        assert (store.count(c.PODS), client.struck) == (0, 1)

    with_faults(main, Faults(refused=1))


def test_a_lost_answer_leaves_the_effect() -> None:
    async def main(client: FaultyClient, store: Store, clock: VirtualClock) -> None:
        with pytest.raises(ApiError) as caught:
            await client.create(c.PODS, pod("p"))
        assert caught.value.is_unreachable
        assert store.count(c.PODS) == 1

    with_faults(main, Faults(lost=1))


def test_requests_take_their_time() -> None:
    async def main(client: FaultyClient, store: Store, clock: VirtualClock) -> None:
        for number in range(20):
            await client.create(c.PODS, pod(f"p{number}"))
        assert 5 < clock.now() - DEFAULT_START < 20

    with_faults(main, Faults(delay=1))


def test_watches_are_cut_forgotten_or_die_of_age() -> None:
    async def main(client: FaultyClient, store: Store, clock: VirtualClock) -> None:
        store.create(c.PODS, pod("p"))
        client._faults.cut = 1
        assert [event async for event in client.watch(c.PODS, Pod, since="0")] == []
        client._faults.cut, client._faults.forgotten = 0, 1
        with pytest.raises(ApiError) as caught:
            await anext(client.watch(c.PODS, Pod, since="0"))
        assert caught.value.is_expired
        client._faults.forgotten, client._faults.lifetime = 0, 3
        assert len([event async for event in client.watch(c.PODS, Pod, since="0")]) == 1
        assert clock.now() > DEFAULT_START

    with_faults(main, Faults())


def test_when_the_faults_stop_all_is_well() -> None:
    faults = Faults(1, 1, 1, 1, 1.0, 1.0)

    async def main(client: FaultyClient, store: Store, clock: VirtualClock) -> None:
        faults.stop()
        created = await client.create(c.PODS, pod("p"))
        assert (await client.get(c.PODS, "d", "p")) == created
        assert len((await client.list(c.PODS, Pod)).items) == 1
        await client.patch(c.PODS, "d", "p", {"status": {"phase": "Running"}}, subresource="status")
        await client.update(c.PODS, {**created, "metadata": {"name": "p", "namespace": "d"}})
        watch = client.watch(c.PODS, Pod, since="0")
        assert [(await anext(watch)).type for _ in range(2)] == ["ADDED", "MODIFIED"]
        await asyncio.sleep(3600)
        await client.delete(c.PODS, "d", "p")
        assert [(await anext(watch)).type for _ in range(2)] == ["MODIFIED", "DELETED"]
        assert (store.count(c.PODS), client.struck) == (0, 0)

    with_faults(main, faults)
