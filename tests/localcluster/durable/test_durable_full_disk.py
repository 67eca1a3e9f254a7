"""When the disk is full, writes fail with a clear word, reads go on, and so do writes once there is room."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from localcluster.durable.lives import Life
from localcluster.store.stores import pod
from stowplan.api.catalogue import CONFIG_MAPS, PODS
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.durable import DataDirError
from waiting import eventually

FULL = "database or disk is full"
URL = "/api/v1/namespaces/default/configmaps"


def _limit(life: Life, pages: int) -> None:
    """Limit the number of the database's pages; SQLite takes that for a full disk."""
    life.database._connection.execute(f"PRAGMA max_page_count = {pages}")


def _fill(life: Life) -> None:
    _limit(life, 1)


def _room(life: Life) -> None:
    _limit(life, 1_000_000)


def _big(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"text": "x" * 200_000}}


async def _until_admitted(life: Life) -> None:
    await eventually(lambda: not life.log._refusal)


def test_a_write_that_is_not_kept_fails_and_then_nothing_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        life = Life(tmp_path)
        life.store.create(CONFIG_MAPS, _big("before"), "default")
        assert await life.store.settled() is None
        _fill(life)
        life.store.create(CONFIG_MAPS, _big("lost"), "default")
        lost = await life.store.settled()
        assert lost is not None
        assert (lost.code, lost.reason) == (500, "InternalError")
        assert FULL in lost.message
        version = life.store.version
        with pytest.raises(ApiError, match=FULL) as refused:
            life.store.create(PODS, pod("p"))
        assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")
        assert life.store.version == version
        assert life.store.get(CONFIG_MAPS, "default", "before")["data"]

        _room(life)
        await _until_admitted(life)
        assert await life.store.settled() is None
        life.store.create(PODS, pod("p"))
        life.end()

    asyncio.run(main())
    again = Life(tmp_path)
    assert [obj["metadata"]["name"] for obj in again.store.all(CONFIG_MAPS)] == ["before", "lost"]
    assert again.store.count(PODS) == 1
    again.end()


def test_what_could_not_be_kept_to_the_end_is_said_and_its_versions_are_not_given_out_again(
    tmp_path: Path,
) -> None:
    async def main() -> int:
        life = Life(tmp_path)
        life.store.create(CONFIG_MAPS, _big("before"), "default")
        await life.store.settled()
        _fill(life)
        life.store.create(CONFIG_MAPS, _big("lost"), "default")
        await life.store.settled()
        with pytest.raises(DataDirError, match="the last changes could not be kept"):
            life.end()
        return life.store.version

    shown = asyncio.run(main())
    again = Life(tmp_path)
    assert [obj["metadata"]["name"] for obj in again.store.all(CONFIG_MAPS)] == ["before"]
    assert again.store.version > shown
    with pytest.raises(ApiError) as refused:
        again.store.watch(CONFIG_MAPS, lambda change: None, since=shown)
    assert refused.value.code == 410
    again.end()


def test_over_http_writes_are_answered_500_and_503_while_reads_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        life = Life(tmp_path)
        create_bootstrap_objects(life.store)
        server = ApiServer(life.store, Listening(plain=True, token="t"), rng=random.Random(1))
        headers = {"Authorization": "Bearer t"}
        async with server, aiohttp.ClientSession(server.url, headers=headers) as session:

            async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
                async with session.request(method, path, json=body) as answer:
                    return answer.status, await answer.json()

            assert (await ask("POST", URL, _big("before")))[0] == 201
            _fill(life)
            code, told = await ask("POST", URL, _big("lost"))
            assert (code, told["reason"]) == (500, "InternalError")
            assert FULL in told["message"]
            code, told = await ask("POST", URL, _big("refused"))
            assert (code, told["reason"]) == (503, "ServiceUnavailable")
            assert FULL in told["message"]
            assert (await ask("GET", f"{URL}/before"))[0] == 200
            assert (await ask("GET", f"{URL}/refused"))[0] == 404
            code, listed = await ask("GET", f"{URL}?resourceVersion=0")
            assert (code, [one["metadata"]["name"] for one in listed["items"]]) == (200, ["before"])
            _room(life)
            await _until_admitted(life)
            assert (await ask("POST", URL, _big("after")))[0] == 201
        life.end()

    asyncio.run(main())


def test_who_writes_faster_than_can_be_kept_is_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    append = life.database.append

    def slow(*args: Any) -> None:
        time.sleep(0.002)
        append(*args)

    monkeypatch.setattr(life.database, "append", slow)
    life.log._limit = 10
    for number in range(200):
        life.store.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, "default")
        assert len(life.log._pending) <= 10
    life.end()
    again = Life(tmp_path)
    assert again.store.count(CONFIG_MAPS) == 200
    again.end()


def test_nobody_outside_hears_of_what_is_not_kept_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers to writes, reads, refusals and watches all come after the commit."""
    life = Life(tmp_path)
    committed = 0
    append = life.database.append

    def slow(rows: Any, resources: Any) -> None:
        nonlocal committed
        time.sleep(0.05)
        append(rows, resources)
        committed = rows[-1][0]

    monkeypatch.setattr(life.database, "append", slow)

    async def main() -> None:
        create_bootstrap_objects(life.store)
        server = ApiServer(life.store, Listening(plain=True, token="t"), rng=random.Random(1))
        headers = {"Authorization": "Bearer t"}
        async with server, aiohttp.ClientSession(server.url, headers=headers) as session:
            await life.store.settled()

            async def ask(method: str, path: str, expected: int, body: Any = None) -> None:
                async with session.request(method, path, json=body) as answer:
                    assert answer.status == expected
                    assert committed == life.store.version

            async with session.get(f"{URL}?watch=true&resourceVersion={life.store.version}") as watch:
                writing = asyncio.create_task(ask("POST", URL, 201, {"metadata": {"name": "c"}}))
                while life.store.find(CONFIG_MAPS, "default", "c") is None:
                    await asyncio.sleep(0)
                assert committed < life.store.version
                await asyncio.gather(
                    writing,
                    ask("GET", f"{URL}/c", 200),
                    ask("GET", URL, 200),
                    ask("POST", URL, 409, {"metadata": {"name": "c"}}),
                    _first_line(watch, lambda: committed == life.store.version),
                )

    asyncio.run(main())
    life.end()


async def _first_line(watch: aiohttp.ClientResponse, is_kept: Any) -> None:
    assert b'"ADDED"' in await watch.content.readline()
    assert is_kept()
