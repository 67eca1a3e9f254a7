"""Clients see a change when it is kept: not before, and not if it could not be."""

import asyncio
import json
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from localcluster.durable.lives import Life
from stowplan.api.catalogue import CONFIG_MAPS
from stowplan.api.requests import EVERY_OBJECT, Json
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.store import StoreChange
from waiting import eventually

URL = "/api/v1/namespaces/default/configmaps"


class Disk:
    """Fails to write while it is `full`, and waits while it is `slow`."""

    def __init__(self, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.quick = threading.Event()
        self.quick.set()
        append = life.database.append

        def write(*args: Any) -> None:
            self.quick.wait()
            if self.full:
                raise OSError("no space left on device")
            append(*args)

        monkeypatch.setattr(life.database, "append", write)


Ask = Callable[..., Coroutine[Any, Any, tuple[int, Any]]]


async def served(life: Life, story: Callable[[Ask, aiohttp.ClientSession], Awaitable[None]]) -> None:
    server = ApiServer(life.store, Listening(plain=True, token="t"), rng=random.Random(1))
    async with (
        server,
        aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer t"}) as session,
    ):

        async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            async with session.request(method, path, json=body) as answer:
                return answer.status, await answer.json()

        await story(ask, session)


def named(body: Json) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def having(name: str, value: str) -> Json:
    return {"metadata": {"name": name}, "data": {"value": value}}


def test_a_write_that_failed_shows_nowhere_until_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    disk = Disk(life, monkeypatch)

    async def story(ask: Ask, session: aiohttp.ClientSession) -> None:
        for name in ("changed", "deleted", "untouched"):
            assert (await ask("POST", URL, having(name, "old")))[0] == 201
        _, before = await ask("GET", URL)
        version = before["metadata"]["resourceVersion"]
        async with session.get(f"{URL}?watch=true&resourceVersion={version}") as early:
            disk.quick.clear()
            disk.full = True
            writes = []
            for wanted in (
                ("POST", URL, having("lost", "new")),
                ("PUT", f"{URL}/changed", having("changed", "new")),
                ("DELETE", f"{URL}/deleted"),
            ):
                writes.append(asyncio.create_task(ask(*wanted)))
                await eventually(lambda: life.store.version == int(version) + len(writes))
            disk.quick.set()
            assert [(await one)[0] for one in writes] == [500, 500, 500]
            assert (await ask("POST", URL, having("lost", "again")))[0] == 503

            assert await ask("GET", URL) == (200, before)
            assert await ask("GET", f"{URL}?resourceVersion=0&limit=500") == (200, before)
            assert (await ask("GET", f"{URL}/lost"))[0] == 404
            assert (await ask("GET", f"{URL}/changed"))[1]["data"] == {"value": "old"}
            assert (await ask("GET", f"{URL}/deleted"))[0] == 200
            async with session.get(f"{URL}?watch=true") as late:
                shown = [json.loads(await late.content.readline())["object"] for _ in range(3)]
                assert [one["metadata"]["name"] for one in shown] == ["changed", "deleted", "untouched"]
                assert shown[0]["data"] == {"value": "old"}
                disk.full = False
                await eventually(lambda: not life.log._refusal)
                for watch in (early, late):
                    events = [json.loads(await watch.content.readline()) for _ in range(3)]
                    assert [one["type"] for one in events] == ["ADDED", "MODIFIED", "DELETED"]
                    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
                    assert versions == [int(version) + 1, int(version) + 2, int(version) + 3]
        code, after = await ask("GET", URL)
        assert (code, named(after)) == (200, ["changed", "lost", "untouched"])
        assert int(after["metadata"]["resourceVersion"]) == int(version) + 3

    async def main() -> None:
        create_bootstrap_objects(life.store)
        await served(life, story)

    asyncio.run(main())
    life.end()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_always_what_a_restart_would_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Random writes on a disk that fails now and then, compared with what has been committed."""
    rng = random.Random(seed)
    life = Life(tmp_path, log=1_000)
    disk = Disk(life, monkeypatch)
    kept: dict[str, Json] = {}
    history: list[StoreChange] = []

    def saw(change: StoreChange) -> None:
        history.append(change)

    def commit() -> None:
        for change in history:
            name = change.object["metadata"]["name"]
            kept.pop(name, None)
            if change.type != "DELETED":
                kept[name] = change.object
        history.clear()

    async def main() -> None:
        life.store.watch(CONFIG_MAPS, saw)
        last = 0
        for _ in range(60):
            if rng.random() < 0.3:
                disk.full = not disk.full
                if not disk.full:
                    await life.store.kept()
                    await eventually(lambda: not life.log._refusal)
            for _ in range(rng.randint(0, 3)):
                write(rng, life)
            if await life.store.settled() is None:
                commit()
            found = await life.store.read_committed(lambda: life.store.list(CONFIG_MAPS))
            assert found.items == [kept[name] for name in sorted(kept)]
            assert found.version >= last
            last = found.version
            sent: list[StoreChange] = []
            watcher = life.store.watch_committed(
                CONFIG_MAPS, sent.append, selection=EVERY_OBJECT, initial_events=True
            )
            watcher.close()
            assert [one.object for one in watcher.backlog[:-1]] == found.items
            assert watcher.backlog[-1].version == found.version
            assert [one.version for one in sent] == [one.version for one in history]
        disk.full = False
        await life.store.kept()
        commit()

    asyncio.run(main())
    life.kill()
    again = Life(tmp_path, log=1_000)
    assert again.store.list(CONFIG_MAPS).items == [kept[name] for name in sorted(kept)]
    again.end()


def write(rng: random.Random, life: Life) -> None:
    name = f"c{rng.randint(0, 4)}"
    try:
        match rng.randint(0, 2):
            case 0:
                life.store.create(CONFIG_MAPS, having(name, "created"), "default")
            case 1:
                patch = {"data": {"value": str(rng.random())}}
                life.store.patch(CONFIG_MAPS, "default", name, patch)
            case _:
                life.store.delete(CONFIG_MAPS, "default", name)
    except ApiError as error:
        if error.code not in (404, 409, 503):
            raise
