"""Metrics of a real client's requests over real sockets."""

import asyncio
import contextlib

import pytest

from client.http.nastyserver import NastyServer, answer, drop
from scheduler.metrics.reading import Timer
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.meta import AnyObject
from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient
from stowplan.scheduler.metrics import ProcessMetrics

OK = answer("200 OK", b'{"a":1}')
LATER = answer("429 Too Many Requests", b"slow down", "Retry-After: 0")
MISSING = answer("404 Not Found", b"{}")


def shown(metrics: ProcessMetrics, server: NastyServer) -> dict[str, str]:
    """Every series of requests but buckets, with the host left out."""
    lines = metrics.text().decode().replace(f'host="127.0.0.1:{server.port}",', "").splitlines()
    pairs = (line.removeprefix("rest_client_").rpartition(" ") for line in lines if line.startswith("rest_"))
    return {name: value for name, _, value in pairs if "_bucket" not in name}


def counted(*scripts: object, watching: bool = False, write: bool = False) -> dict[str, str]:
    """Metrics after one request to a server that answers by scripts."""
    metrics = ProcessMetrics(DEFAULT_GATES, timer=Timer())

    async def request(client: HttpClient) -> None:
        if watching:
            watch = client.watch(PODS, AnyObject)
            await anext(watch, None)
            await watch.aclose()
        elif write:
            await client.create(NODES, {"metadata": {"name": "n"}})
        else:
            await client.get(NODES, "", "n1")

    async def run() -> dict[str, str]:
        async with NastyServer(*scripts) as server:  # type: ignore[arg-type]
            observer = metrics.requests.to(f"127.0.0.1:{server.port}")
            async with server.client(observer=observer) as client:
                with contextlib.suppress(ApiError):
                    await request(client)
            return shown(metrics, server)

    return asyncio.run(run())


def test_a_request_is_counted_timed_and_weighed() -> None:
    found = counted(OK)
    assert found == {
        'requests_total{code="200",method="GET"}': "1",
        'request_duration_seconds_count{verb="GET"}': "1",
        'request_duration_seconds_sum{verb="GET"}': "0",
        'rate_limiter_duration_seconds_count{verb="GET"}': "1",
        'rate_limiter_duration_seconds_sum{verb="GET"}': "0",
        'request_size_bytes_count{verb="GET"}': "1",
        'request_size_bytes_sum{verb="GET"}': "0",
        'response_size_bytes_count{verb="GET"}': "1",
        'response_size_bytes_sum{verb="GET"}': "7",
    }


def test_a_request_sent_again_is_two_requests_and_one_answer() -> None:
    found = counted(LATER, OK)
    assert found['requests_total{code="429",method="GET"}'] == "1"
    assert found['requests_total{code="200",method="GET"}'] == "1"
    assert found['request_retries_total{code="200",verb="GET"}'] == "1"
    assert found['request_size_bytes_count{verb="GET"}'] == "2"
    assert found['rate_limiter_duration_seconds_count{verb="GET"}'] == "2"
    assert found['request_duration_seconds_count{verb="GET"}'] == "1"
    assert found['response_size_bytes_count{verb="GET"}'] == "1"


def test_a_refusal_is_an_answer_too() -> None:
    found = counted(MISSING)
    assert found['requests_total{code="404",method="GET"}'] == "1"
    assert found['response_size_bytes_sum{verb="GET"}'] == "2"


def test_an_answer_that_does_not_come_is_counted_as_an_error() -> None:
    found = counted(drop, write=True)
    assert found['requests_total{code="<error>",method="POST"}'] == "1"
    assert float(found['request_size_bytes_sum{verb="POST"}']) > 20


@pytest.mark.parametrize(
    ("script", "code"), [(answer("200 OK", b""), "200"), (MISSING, "404"), (drop, "<error>")]
)
def test_watches_are_counted_but_neither_timed_nor_weighed(script: object, code: str) -> None:
    assert counted(script, watching=True) == {f'requests_total{{code="{code}",method="GET"}}': "1"}
