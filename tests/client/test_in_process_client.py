"""The client interface over a store in this process."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from client.reflected_store import pod
from stowplan.api import catalogue as c
from stowplan.api.meta import Namespace, Object, ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, PatchType, Selection
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding, Lease
from stowplan.localcluster.client import InProcessClient, typed
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run


def with_client(main: Callable[[InProcessClient, Store], Coroutine[Any, Any, None]]) -> None:
    async def begin(clock: VirtualClock) -> None:
        store = Store(clock, random.Random(1))
        await main(InProcessClient(store), store)

    run(begin)


def test_lists_are_typed_and_know_their_version() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        for number in range(1200):
            await client.create(c.PODS, pod(f"p{number}", labels={"odd": str(number % 2)}))
        listing = await client.list(c.PODS, Pod, namespace="d", selection=Selection.parse("odd=1"))
        assert len(listing.items) == 600
        assert all(isinstance(item, Pod) for item in listing.items)
        assert (listing.resource_version, listing.unreadable) == ("1200", [])

    with_client(main)


def test_an_object_that_cannot_be_read_does_not_spoil_a_list() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        store.create(c.PODS, {**pod("bad"), "spec": {"priority": "x"}})
        store.create(c.PODS, {**pod("nulls"), "spec": {"containers": None, "priority": None}})
        listing = await client.list(c.PODS, Pod)
        assert [item.name for item in listing.items] == ["nulls"]
        (unreadable,) = listing.unreadable
        assert unreadable.key == "d/bad"
        assert "$.spec.priority" in unreadable.problem

    with_client(main)


def test_every_write_arrives_in_the_store() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        lease = await client.create(c.LEASES, Lease(metadata=ObjectMeta(name="l", namespace="kube-system")))
        await client.update(c.LEASES, {**lease, "spec": {"holderIdentity": "me"}})
        got = await client.get(c.LEASES, "kube-system", "l")
        assert got["spec"] == {"holderIdentity": "me"}
        created = await client.create(c.PODS, pod("p"), namespace="d")
        await client.bind(
            Binding(
                metadata=ObjectMeta(name="p", namespace="d", uid=created["metadata"]["uid"]),
                target=ObjectReference(kind="Node", name="n"),
            )
        )
        condition = {"type": "Ready", "status": "True"}
        await client.patch(c.PODS, "d", "p", {"status": {"conditions": [condition]}}, subresource="status")
        await client.patch(c.PODS, "d", "p", {"metadata": {"labels": {"a": "b"}}}, PatchType.MERGE)
        pod_ = typed(store.get(c.PODS, "d", "p"), Pod)
        assert pod_.spec.node_name == "n"
        assert {cond.type for cond in pod_.status.conditions} == {"Ready", "PodScheduled"}
        assert pod_.metadata.labels == {"a": "b"}
        await client.delete(c.PODS, "d", "p", DeleteOptions(0))
        assert store.count(c.PODS) == 0

    with_client(main)


def test_refusals_come_as_they_are() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        with pytest.raises(ApiError, match=r'^pods "p" not found$'):
            await client.get(c.PODS, "d", "p")
        with pytest.raises(ApiError, match="Too large resource version: 9, current: 0"):
            await client.list(c.PODS, Pod, not_older_than="9")
        with pytest.raises(ApiError, match="resourceVersion: expected a number, got 'abc'"):
            await anext(client.watch(c.PODS, Pod, since="abc"))
        with pytest.raises(ApiError, match="field label not supported: spec"):
            await anext(client.watch(c.PODS, Pod, selection=Selection.parse("", "spec=1")))

    with_client(main)


def test_a_watch_shows_typed_events_until_it_is_closed() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        store.create(c.NAMESPACES, {"metadata": {"name": "old"}})
        watch = client.watch(c.NAMESPACES, Namespace, initial_events=True)
        first, bookmark = await anext(watch), await anext(watch)
        assert (first.type, first.key, first.object and first.object.name) == ("ADDED", "old", "old")
        assert (bookmark.type, bookmark.synced, bookmark.object) == ("BOOKMARK", True, None)
        store.create(c.NAMESPACES, {"metadata": {"name": "new"}})
        store.create(c.NAMESPACES, {"metadata": {"name": "late"}})
        event = await anext(watch)
        assert (event.type, event.key, event.resource_version) == ("ADDED", "new", "2")
        await watch.aclose()
        assert [event.key async for event in watch] == ["late"]
        store.create(c.NAMESPACES, {"metadata": {"name": "later"}})
        assert [event.key async for event in watch] == []

    with_client(main)


def test_a_watch_that_was_closed_before_it_began_shows_nothing() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        store.create(c.PODS, pod("p"))
        watch = client.watch(c.PODS, Pod, since="0")
        await watch.aclose()
        assert [event async for event in watch] == []

    with_client(main)


def test_objects_of_kinds_without_a_type_can_be_watched_by_their_metadata() -> None:
    async def main(client: InProcessClient, store: Store) -> None:
        widgets = store.catalogue.register(c.Resource("e.com", "v1", "widgets", "Widget", custom=True))
        watch = client.watch(widgets, Object)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await client.create(widgets, {"metadata": {"name": "w", "namespace": "d"}, "size": 3})
        event = await waiting
        assert event.key == "d/w"
        assert event.object is not None
        assert event.object.kind == "Widget"

    with_client(main)
