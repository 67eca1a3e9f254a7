"""`stowplan run` on a cluster whose claims have parameters for drivers deeper than a decoder goes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from server.process.processes import Cluster, cluster
from stowplan.api.catalogue import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.localcluster.apiserver import responses

DRIVER = "gpu.example.com"

DEPTHS = (101, 900, 1_500, 960, 980, 2_000)
"""Levels of the parameters. A decoder fails somewhere below 1,000."""


def deep(depth: int) -> bytes:
    """Parameters; those that no decoder takes are written as no encoder would write them."""
    odd = b',"b":1e3,"c":"\\u003c"' if depth > 1_000 else b""
    return b'{"":' * (depth - 1) + b'{"a":%d%b}' % (depth, odd) + b"}" * (depth - 1)


def put_in_deep_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server send deep values, which ours refuses, for marks that it keeps, and take them again."""
    marks = {b'{"deep":"%d"}' % depth: deep(depth) for depth in DEPTHS}
    encode, read = responses.encode, web.BaseRequest.read

    def encode_deep(value: Any) -> bytes:
        text = encode(value)
        for mark, value_text in marks.items():
            text = text.replace(mark, value_text)
        return text

    async def read_deep(request: web.BaseRequest) -> bytes:
        text = await read(request)
        for mark, value_text in marks.items():
            text = text.replace(value_text, mark)
        return text

    monkeypatch.setattr(responses, "encode", encode_deep)
    monkeypatch.setattr(web.BaseRequest, "read", read_deep)


def config(depth: int) -> list[dict[str, Any]]:
    return [{"opaque": {"driver": DRIVER, "parameters": {"deep": str(depth)}}}]


def add_claim(place: Cluster, depth: int) -> None:
    name = f"deep-{depth}"
    place.store.create(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"config": config(depth)}})
    request = {"name": "r", "exactly": {"deviceClassName": name, "count": 1}}
    spec = {"devices": {"requests": [request], "config": config(depth)}}
    place.store.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    place.add_pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}])


def test_claims_with_deep_parameters_are_allocated_and_the_parameters_copied_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_deep_parameters(monkeypatch)

    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(1)
            devices = [{"name": f"gpu-{number}"} for number in DEPTHS]
            pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": devices}
            place.store.create(RESOURCE_SLICES, {"metadata": {"name": "slice"}, "spec": spec})
            in_list, in_watch = DEPTHS[::2], DEPTHS[1::2]
            for depth in in_list:
                add_claim(place, depth)
            scheduler = await place.start("--leader-elect=false")
            await place.bound(*(f"deep-{depth}" for depth in in_list))
            for depth in in_watch:
                add_claim(place, depth)
            await place.bound(*(f"deep-{depth}" for depth in in_watch))
            for depth in DEPTHS:
                claim = place.store.get(RESOURCE_CLAIMS, "default", f"deep-{depth}")
                copied = claim["status"]["allocation"]["devices"]["config"]
                assert [one["opaque"] for one in copied] == [one["opaque"] for one in config(depth) * 2]
                assert claim["spec"]["devices"]["config"] == config(depth)
            assert "cannot be read" not in scheduler.log
            assert "Traceback" not in scheduler.log

    asyncio.run(story())
