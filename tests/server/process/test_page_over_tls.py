"""The page of `stowplan run`: its stream over TLS, with the rights of the caller, until the process ends."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import aiohttp

from server.process.guarded_cluster import TOKENS, delegating, guarded_cluster
from server.serving.secureports import trusting_all
from stowplan.api.catalogue import NODES
from stowplan.testing.ports import free_port
from waiting import PATIENCE

ADMIN = "system:masters"
NODE = {"metadata": {"name": "late"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}


async def event(stream: aiohttp.ClientResponse, wanted: str) -> Any:
    """The next event of a name."""
    async with asyncio.timeout(PATIENCE):
        while True:
            line = (await stream.content.readline()).decode().strip()
            assert line or not stream.content.at_eof(), "the stream ended"
            if line == f"event: {wanted}":
                return json.loads((await stream.content.readline()).decode().removeprefix("data: "))


def test_the_stream_tells_changes_over_tls_and_ends_with_the_process(tmp_path: Path) -> None:
    async def story() -> None:
        async with guarded_cluster(tmp_path) as place:
            port = free_port()
            scheduler = await place.start(*delegating(place.kubeconfig(), port), "--page")
            await scheduler.says("Successfully acquired lease")
            connector = aiohttp.TCPConnector(ssl=trusting_all())
            async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
                async with session.get("/stowplan/v1/stream") as stranger:
                    assert stranger.status in (401, 403)
                headers = {"Authorization": f"Bearer {TOKENS[ADMIN]}"}
                async with session.get("/stowplan/", headers=headers) as page:
                    assert page.status == 200
                    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
                async with session.get("/stowplan/v1/stream", headers=headers) as stream:
                    assert stream.headers["Content-Type"] == "text/event-stream"
                    hello = await event(stream, "hello")
                    assert (hello["nodes"], hello["scheduler"]["leader"]) == (0, True)
                    place.store.create(NODES, NODE)
                    assert await event(stream, "nodes") == {"reload": True}
                    scheduler.signal(signal.SIGTERM)
                    assert await scheduler.ends() == 0

    asyncio.run(story())
