"""Elections over real sockets: what is on the wire, and a server that does not answer."""

import asyncio
import random
from pathlib import Path

import pytest

from client.election.candidates import NAME, NAMESPACE, timing
from client.http.served_stores import client_of, serving
from stowplan.api.catalogue import LEASES
from stowplan.client.election import Elector, LeaseLostError, Timing, identity, lock_for
from stowplan.client.http import Address, HttpClient, Server
from stowplan.runtime.clock import RealClock
from waiting import PATIENCE


def elector_of(client: HttpClient, times: Timing, seed: int, kind: str = "leases") -> Elector:
    rng = random.Random(seed)
    lock = lock_for(kind, client, NAMESPACE, NAME, identity("vm", rng))
    return Elector(lock, times, clock=RealClock(), rng=rng)


@pytest.mark.parametrize("kind", ["leases", "endpointsleases"])
def test_a_lease_is_taken_held_and_handed_over(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        times = timing("3s", "2s", "100ms")
        async with (
            serving(tmp_path) as (store, _, kubeconfig),
            client_of(kubeconfig, timeout=times.request_timeout) as one,
            client_of(kubeconfig, timeout=times.request_timeout) as two,
        ):
            first, second = elector_of(one, times, 1, kind), elector_of(two, times, 2, kind)
            await first.acquire()
            holding = asyncio.create_task(first.renew())
            waiting = asyncio.create_task(second.acquire())
            await asyncio.sleep(0.5)
            assert (first.is_leader, second.is_leader) == (True, False)
            holding.cancel()
            assert await first.release()
            async with asyncio.timeout(PATIENCE):
                await waiting
            assert store.get(LEASES, NAMESPACE, NAME)["spec"]["holderIdentity"] == second.identity
            assert store.get(LEASES, NAMESPACE, NAME)["spec"]["leaseTransitions"] == 1

    asyncio.run(main())


class Mute:
    """A server that takes requests down and answers the first ones only."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.agents: set[str] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.asked.append(line.decode().strip())
            length = 0
            while (header := await reader.readline()).strip():
                name, _, value = header.decode().partition(":")
                if name == "Content-Length":
                    length = int(value)
                if name == "User-Agent":
                    self.agents.add(value.strip())
            body = await reader.readexactly(length)
            if not self.answers:
                await asyncio.sleep(60)
            code = self.answers.pop(0)
            answer = body if code.startswith(b"2") else b'{"code":404,"reason":"NotFound"}'
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (code, len(answer), answer)
            )


def test_requests_say_how_long_they_are_of_use_and_a_mute_server_costs_the_lease() -> None:
    async def main() -> None:
        mute = Mute([b"404 Not Found", b"201 Created", b"200 OK"])
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        times = timing("3s", "1200ms", "300ms")
        client = HttpClient(
            Server(Address.parse(f"http://127.0.0.1:{port}")),
            clock=RealClock(),
            rng=random.Random(1),
            user_agent="me/leader-election",
            timeout=times.request_timeout,
            environ={},
        )
        async with client:
            elector = elector_of(client, times, 1)
            await elector.acquire()
            began = asyncio.get_running_loop().time()
            with pytest.raises(LeaseLostError):
                await elector.renew()
            assert asyncio.get_running_loop().time() - began == pytest.approx(1.5, abs=0.7)
            assert not elector.is_leader
        server.close()
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        assert mute.asked[:3] == [
            f"GET {leases}/kube-scheduler?timeout=1s HTTP/1.1",
            f"POST {leases}?timeout=1s HTTP/1.1",
            f"PUT {leases}/kube-scheduler?timeout=1s HTTP/1.1",
        ]
        assert mute.agents == {"me/leader-election"}

    asyncio.run(main())
