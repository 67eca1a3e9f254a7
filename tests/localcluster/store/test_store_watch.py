"""Watching: every change in order, from where one left off, through a selection, and not for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from localcluster.store.stores import Log, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.requests import DeleteOptions, Selection
from stowplan.api.status import ApiError
from stowplan.localcluster.store import Store, StoreChange, WatchStream
from stowplan.localcluster.store.watchcache import Sink, Watcher
from stowplan.runtime.clock import VirtualClock, run

PHASES = Selection.parse("", "status.phase!=Succeeded,status.phase!=Failed")


def set_phase(store: Store, name: str, phase: str) -> None:
    store.patch(c.PODS, "default", name, {"status": {"phase": phase}}, subresource="status")


def test_changes_are_told_as_they_happen_with_rising_versions() -> None:
    store, log = new_store(), Log()
    store.create(c.PODS, pod("before"))
    store.watch(c.PODS, log)
    store.create(c.PODS, pod("a"))
    store.create(c.NODES, {"metadata": {"name": "n"}})
    set_phase(store, "a", "Running")
    store.delete(c.PODS, "default", "a", DeleteOptions(0))
    assert log.short == ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]
    assert [change.version for change in log.changes] == [2, 4, 5, 6]
    for change in log.changes:
        assert change.object["metadata"]["resourceVersion"] == str(change.version)


def test_a_closed_watcher_is_told_nothing_more() -> None:
    store, log = new_store(), Log()
    watcher = store.watch(c.PODS, log)
    watcher.close()
    watcher.close()
    store.create(c.PODS, pod("a"))
    assert log.changes == []


def test_through_a_selection_objects_come_and_go_as_they_match() -> None:
    store, log = new_store(), Log()
    store.watch(c.PODS, log, selection=PHASES)
    store.create(c.PODS, pod("a"))
    set_phase(store, "a", "Running")
    set_phase(store, "a", "Succeeded")
    set_phase(store, "a", "Failed")
    set_phase(store, "a", "Pending")
    store.delete(c.PODS, "default", "a")
    assert log.short == ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "MODIFIED a", "DELETED a"]
    gone = log.changes[2]
    assert gone.object["status"]["phase"] == "Running"
    assert gone.object["metadata"]["resourceVersion"] == str(gone.version) == "3"


def test_a_watch_can_be_of_one_namespace_or_of_some_labels() -> None:
    store, here, web = new_store(), Log(), Log()
    store.watch(c.PODS, here, namespace="here")
    store.watch(c.PODS, web, selection=Selection.parse("app=web"))
    store.create(c.PODS, pod("a", "here"))
    store.create(c.PODS, pod("b", "there", labels={"app": "web"}))
    current = store.create(c.PODS, pod("c", "here", labels={"app": "web"}))
    store.update(c.PODS, {**current, "metadata": {**current["metadata"], "labels": {}}})
    assert here.short == ["ADDED a", "ADDED c", "MODIFIED c"]
    assert web.short == ["ADDED b", "ADDED c", "DELETED c"]


def test_a_watch_resumes_after_any_version_still_remembered() -> None:
    store = new_store()
    for number in range(5):
        store.create(c.PODS, pod(f"p{number}"))
    for version in range(6):
        watcher = store.watch(c.PODS, Log(), since=version)
        assert [change.version for change in watcher.backlog] == list(range(version + 1, 6))


def test_a_version_that_is_forgotten_is_gone() -> None:
    store = new_store(history=3)
    for number in range(5):
        store.create(c.PODS, pod(f"p{number}"))
    store.watch(c.PODS, Log(), since=2)
    with pytest.raises(ApiError) as caught:
        store.watch(c.PODS, Log(), since=1)
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (2)",
        "reason": "Expired",
        "code": 410,
    }
    assert caught.value.is_expired


def test_the_history_of_large_objects_is_shorter() -> None:
    """Fresh changes may have 32 MiB, so that clients can resume; a minute later they may have 2 MiB."""
    store, note = new_store(), {"note": "x" * 1_000_000}
    for number in range(40):
        store.create(c.PODS, pod(f"p{number}", annotations=note))
    assert store.compact_history(0.0) > 6_000_000
    assert len(store.watch(c.PODS, Log(), since=7).backlog) == 33
    with pytest.raises(ApiError, match="too old resource version: 6"):
        store.watch(c.PODS, Log(), since=6)
    store.create(c.PODS, pod("fresh"))
    assert store.compact_history(74.0) == 0
    assert store.compact_history(75.0) > 30_000_000
    assert len(store.watch(c.PODS, Log(), since=39).backlog) == 2
    assert store.compact_history(1000.0) == 0


def test_the_history_of_small_objects_stays() -> None:
    store = new_store()
    for number in range(200):
        store.create(c.PODS, pod(f"p{number}"))
    assert store.compact_history(0.0) == store.compact_history(10_000.0) == 0
    assert len(store.watch(c.PODS, Log(), since=0).backlog) == 200


def test_a_history_that_is_full_is_measured_as_it_is() -> None:
    store, note = new_store(history=3), {"note": "x" * 1_000_000}
    for number in range(40):
        store.create(c.PODS, pod(f"p{number}", annotations=note))
        assert store.compact_history(float(number)) == 0


def test_the_history_of_one_resource_does_not_suffer_from_another() -> None:
    store = new_store(history=3)
    store.create(c.PODS, pod("p"))
    for number in range(50):
        store.create(c.CONFIG_MAPS, {"metadata": {"name": f"m{number}", "namespace": "d"}})
    assert len(store.watch(c.PODS, Log(), since=0).backlog) == 1


def test_a_version_from_the_future_is_too_large() -> None:
    with pytest.raises(ApiError) as caught:
        new_store().watch(c.PODS, Log(), since=7)
    assert caught.value.message == "Timeout: Too large resource version: 7, current: 0"
    assert caught.value.is_version_too_large


def test_the_initial_state_comes_first_and_ends_with_a_bookmark() -> None:
    store, log = new_store(), Log()
    store.create(c.PODS, pod("b"))
    store.create(c.PODS, pod("a"))
    store.create(c.PODS, pod("done"))
    set_phase(store, "done", "Succeeded")
    watcher = store.watch(c.PODS, log, selection=PHASES, initial_events=True)
    shown = [(change.type, change.object["metadata"].get("name")) for change in watcher.backlog]
    assert shown == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", None)]
    assert watcher.backlog[-1].ends_initial_state
    assert watcher.backlog[-1].object == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "4", "annotations": {"k8s.io/initial-events-end": "true"}},
    }
    store.create(c.PODS, pod("c"))
    assert log.short == ["ADDED c"]


def test_bookmarks_say_how_far_the_store_has_come_to_those_who_want_to_know() -> None:
    store, wants, does_not = new_store(), Log(), Log()
    store.watch(c.PODS, wants, bookmarks=True)
    store.watch(c.PODS, does_not)
    store.send_bookmarks()
    store.create(c.NODES, {"metadata": {"name": "n"}})
    store.send_bookmarks()
    assert [(change.type, change.version) for change in wants.changes] == [("BOOKMARK", 0), ("BOOKMARK", 1)]
    assert not wants.changes[0].ends_initial_state
    assert does_not.changes == []


def test_a_watcher_may_write_and_all_see_one_order() -> None:
    store, first, last = new_store(), Log(), Log()
    store.watch(c.PODS, first)

    def reacts(change: StoreChange) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "ADDED" and not name.startswith("shadow"):
            store.create(c.PODS, pod(f"shadow-{name}"))
            store.send_bookmarks()

    store.watch(c.PODS, reacts)
    store.watch(c.PODS, last, bookmarks=True)
    store.create(c.PODS, pod("a"))
    set_phase(store, "a", "Running")
    assert first.short == ["ADDED a", "ADDED shadow-a", "MODIFIED a"]
    assert last.short == ["ADDED a", "ADDED shadow-a", "BOOKMARK", "MODIFIED a"]


def test_a_watcher_that_begins_within_a_change_is_told_everything_once() -> None:
    store, late = new_store(), Log()
    backlogs: list[list[str]] = []

    def begins(change: StoreChange) -> None:
        if not backlogs:
            store.create(c.PODS, pod("b"))
            watcher = store.watch(c.PODS, late, initial_events=True)
            backlogs.append([shown.object["metadata"].get("name", "") for shown in watcher.backlog])

    store.watch(c.PODS, begins)
    store.create(c.PODS, pod("a"))
    store.create(c.PODS, pod("c"))
    assert backlogs == [["a", "b", ""]]
    assert late.short == ["ADDED c"]


def test_a_watcher_that_leaves_within_a_change_is_told_nothing_more() -> None:
    store, log = new_store(), Log()
    watchers: list[Watcher] = []
    store.watch(c.PODS, lambda change: watchers[0].close())
    watchers.append(store.watch(c.PODS, log))
    store.create(c.PODS, pod("a"))
    assert log.changes == []


def test_a_watcher_that_fails_costs_nobody_else_anything() -> None:
    store, log = new_store(), Log()

    def fails(change: StoreChange) -> None:
        raise RuntimeError("a bug")

    ended: list[bool] = []
    store.watch(c.PODS, fails).on_end = lambda: ended.append(True)
    store.watch(c.PODS, log)
    with pytest.raises(RuntimeError, match="a bug"):
        store.create(c.PODS, pod("a"))
    store.create(c.PODS, pod("b"))
    assert log.short == ["ADDED a", "ADDED b"]
    assert ended == [True], "its client is to watch again"


def test_what_was_told_never_changes_afterwards() -> None:
    store, log = new_store(), Log()
    store.watch(c.PODS, log)
    created = store.create(c.PODS, pod("a"))
    kept = str(created)
    set_phase(store, "a", "Running")
    store.bind("default", "a", {"target": {"name": "n"}})
    store.delete(c.PODS, "default", "a")
    assert str(created) == str(log.changes[0].object) == kept


def streaming(
    main: Callable[[Store, Callable[..., WatchStream]], Coroutine[Any, Any, None]], limit: int = 5
) -> None:
    async def begin(clock: VirtualClock) -> None:
        store = new_store()

        def stream(**options: Any) -> WatchStream:
            def watch(sink: Sink) -> Watcher:
                return store.watch(c.PODS, sink, **options)

            return WatchStream(watch, limit)

        await main(store, stream)

    run(begin)


def test_a_stream_waits_for_changes_and_ends_when_it_is_closed() -> None:
    async def main(store: Store, stream: Callable[..., WatchStream]) -> None:
        seen: list[str] = []

        async def follow(watch: WatchStream) -> None:
            async for change in watch:
                seen.append(change.object["metadata"]["name"])
            seen.append("end")

        store.create(c.PODS, pod("a"))
        watch = stream(since=0)
        task = asyncio.create_task(follow(watch))
        await asyncio.sleep(1)
        store.create(c.PODS, pod("b"))
        await asyncio.sleep(1)
        assert seen == ["a", "b"]
        store.create(c.PODS, pod("c"))
        watch.close()
        await task
        assert seen == ["a", "b", "c", "end"]
        assert not watch.cut_off

    streaming(main)


def test_who_does_not_keep_up_is_cut_off_and_can_resume() -> None:
    async def main(store: Store, stream: Callable[..., WatchStream]) -> None:
        watch = stream()
        for number in range(6):
            assert not watch.cut_off
            store.create(c.PODS, pod(f"p{number}"))
        assert watch.cut_off
        assert [change async for change in watch] == []
        store.create(c.PODS, pod("later"))
        resumed = stream(since=0)
        resumed.close()
        assert [change.version async for change in resumed] == [1, 2, 3, 4, 5, 6, 7]

    streaming(main)


def test_a_large_initial_state_does_not_cut_a_watcher_off() -> None:
    async def main(store: Store, stream: Callable[..., WatchStream]) -> None:
        for number in range(100):
            store.create(c.PODS, pod(f"p{number}"))
        watch = stream(initial_events=True)
        store.create(c.PODS, pod("q"))
        watch.close()
        assert len([change async for change in watch]) == 102

    streaming(main)


def test_a_cancelled_wait_loses_no_change() -> None:
    async def main(store: Store, stream: Callable[..., WatchStream]) -> None:
        watch = stream()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await anext(watch)
        store.create(c.PODS, pod("a"))
        assert (await anext(watch)).object["metadata"]["name"] == "a"

    streaming(main)
