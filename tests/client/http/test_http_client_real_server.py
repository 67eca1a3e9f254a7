"""The client against our own API server over TLS."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from client.http.served_stores import client_of, node, pod, serving
from stowplan.api.catalogue import CONFIG_MAPS, NODES, PODS
from stowplan.api.meta import AnyObject
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, PatchType
from stowplan.api.status import ApiError
from stowplan.client import Reflector, Retries
from stowplan.client.http import client as http_client
from stowplan.localcluster.client import InProcessClient
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import Scheduler, Settings
from waiting import PATIENCE, eventually


class Seen:
    """A handler that keeps what is there."""

    def __init__(self) -> None:
        self.objects: dict[str, AnyObject] = {}

    def added(self, new: AnyObject) -> None:
        self.objects[new.key] = new

    def updated(self, old: AnyObject, new: AnyObject) -> None:
        self.objects[new.key] = new

    def deleted(self, last: AnyObject) -> None:
        del self.objects[last.key]


def test_objects_are_written_and_read(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (store, _, kubeconfig), client_of(kubeconfig) as client:
            created = await client.create(PODS, pod("a"))
            assert created == store.get(PODS, "default", "a")
            labels = {"metadata": {"labels": {"x": "1"}, "annotations": {"where": "Zürich"}}}
            patched = await client.patch(PODS, "default", "a", labels, PatchType.MERGE)
            assert patched["metadata"]["annotations"] == {"where": "Zürich"}
            patched["metadata"]["labels"]["x"] = "y"
            await client.update(PODS, patched)
            assert (await client.get(PODS, "default", "a"))["metadata"]["labels"] == {"x": "y"}
            with pytest.raises(ApiError) as failure:
                await client.update(PODS, patched)
            assert failure.value.is_conflict
            with pytest.raises(ApiError) as failure:
                await client.create(PODS, pod("a"))
            assert failure.value.is_already_exists
            with pytest.raises(ApiError) as failure:
                await client.delete(PODS, "default", "a", DeleteOptions(uid="another"))
            assert failure.value.is_conflict
            await client.delete(PODS, "default", "a", DeleteOptions(grace_period_seconds=0))
            with pytest.raises(ApiError, match='pods "a" not found') as failure:
                await client.get(PODS, "default", "a")
            assert failure.value.is_not_found

    asyncio.run(run())


def test_a_list_over_several_pages_is_what_the_store_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "PAGE", 7)

    async def run() -> None:
        async with serving(tmp_path) as (store, _, kubeconfig), client_of(kubeconfig) as client:
            for number in range(40):
                store.create(PODS, pod(f"p{number}"))
            here = InProcessClient(store)
            for cls in (Pod, AnyObject):
                listing = await client.list(PODS, cls, not_older_than=str(store.version))
                expected = await here.list(PODS, cls)
                assert list(listing.items) == list(expected.items)
                assert listing.resource_version == expected.resource_version
            with pytest.raises(ApiError) as failure:
                await client.list(PODS, Pod, not_older_than=str(store.version + 1000))
            assert failure.value.is_version_too_large

    asyncio.run(run())


def test_objects_that_cannot_be_read_do_not_hide_the_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (store, _, kubeconfig), client_of(kubeconfig) as client:
            for name, value in (("good", {"a": "b"}), ("bad", {"a": "b"})):
                store.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}, "data": value})
            store.create(PODS, pod("fine"))
            listing = await client.list(CONFIG_MAPS, _Strict, namespace="default")
            assert [item.name for item in listing.items] == []
            assert [one.key for one in listing.unreadable] == ["default/bad", "default/good"]
            assert "data" in listing.unreadable[0].problem

    asyncio.run(run())


class _Strict(Pod, frozen=True):
    """A type that real config maps do not fit."""

    data: int = 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_reflector_follows_a_server_through_this_client(tmp_path: Path, stream: bool) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (store, _, kubeconfig), client_of(kubeconfig) as client:
            store.create(PODS, pod("first"))
            seen = Seen()
            reflector = Reflector(
                client,
                PODS,
                AnyObject,
                seen,
                clock=RealClock(),
                rng=random.Random(1),
                report=lambda text: None,
                stream=stream,
            )
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.wait_synced(), PATIENCE)
            for number in range(300):
                store.create(PODS, pod(f"p{number}"))
            store.delete(PODS, "default", "first", DeleteOptions(grace_period_seconds=0))
            await eventually(lambda: reflector.resource_version == str(store.version))
            task.cancel()
            assert {key: one.data for key, one in seen.objects.items()} == {
                f"default/{one['metadata']['name']}": one for one in store.list(PODS).items
            }
            assert reflector.failures == 0

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_a_reflector_that_is_cut_off_again_and_again_misses_nothing(
    tmp_path: Path, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has just started gives a watcher room for some ten events, then drops it."""
    monkeypatch.setattr("stowplan.client.reflector.Retries", lambda rng: Retries(rng, first=0.01))

    async def run() -> None:
        async with (
            serving(tmp_path, watch_limit=6000) as (store, _, kubeconfig),
            client_of(kubeconfig) as client,
        ):
            told: list[str] = []
            reflector = Reflector(
                client,
                PODS,
                AnyObject,
                Seen(),
                clock=RealClock(),
                rng=random.Random(1),
                report=told.append,
                stream=stream,
            )
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.wait_synced(), PATIENCE)
            for number in range(300):
                store.create(PODS, pod(f"p{number}"))
                if number % 30 == 0:
                    await asyncio.sleep(0.02)
            await eventually(lambda: reflector.resource_version == str(store.version))
            task.cancel()
            assert len(reflector.objects) == 300
            assert told

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "code", "problem"),
    [
        ({"user": {"token": "wrong"}}, 401, "Unauthorized"),
        ({"cluster": {"certificate-authority-data": None}}, 0, "failed to verify certificate"),
        ({"cluster": {"tls-server-name": "elsewhere.example"}}, 0, "failed to verify certificate"),
        ({"cluster": {"tls-server-name": "kubernetes.default.svc"}}, None, ""),
        ({"cluster": {"certificate-authority-data": None, "insecure-skip-tls-verify": True}}, None, ""),
        ({"cluster": {"server": "http://127.0.0.1:{port}"}}, 0, "EOF|reset|malformed"),
    ],
)
def test_who_is_trusted_and_who_gets_in(
    tmp_path: Path, change: dict[str, Any], code: int | None, problem: str
) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (_, server, kubeconfig):
            data = yaml.safe_load(kubeconfig.read_text().replace("{port}", str(server.port)))
            for section, fields in change.items():
                filled = {
                    key: value.replace("{port}", str(server.port)) if isinstance(value, str) else value
                    for key, value in fields.items()
                }
                data[f"{section}s"][0][section].update(filled)
            kubeconfig.write_text(yaml.safe_dump(data))
            async with client_of(kubeconfig) as client:
                if code is None:
                    assert (await client.list(NODES, AnyObject)).items == []
                    return
                with pytest.raises(ApiError, match=problem) as failure:
                    await client.create(NODES, node("n"))
                assert failure.value.code == code

    asyncio.run(run())


def test_a_scheduler_binds_pods_through_this_client(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (store, _, kubeconfig), client_of(kubeconfig) as client:
            for number in range(5):
                store.create(NODES, node(f"n{number}"))
            for number in range(50):
                store.create(PODS, pod(f"p{number}"))
            scheduler = Scheduler(client, Settings.of(), clock=RealClock(), rng=random.Random(3))
            async with scheduler.running():
                await eventually(lambda: all(one["spec"].get("nodeName") for one in store.list(PODS).items))
            bound = [one["spec"]["nodeName"] for one in store.list(PODS).items]
            assert len(bound) == 50
            assert {bound.count(f"n{number}") for number in range(5)} == {10}

    asyncio.run(run())
