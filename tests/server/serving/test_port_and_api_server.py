"""The port and an API server, both over real sockets: tokens, rights and authorities come from there."""

import asyncio
import random
from pathlib import Path

from server.serving.secureports import Authority, Caller, authentication_settings_in, port
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.localcluster.apiserver import ApiServer
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock


def test_tokens_rights_and_authorities_are_those_of_the_cluster(tmp_path: Path) -> None:
    async def run() -> None:
        store = Store(RealClock(), random.Random(1))
        clients = Authority("cluster-ca")
        authentication_settings_in(store, clients.pem)
        async with ApiServer(store) as cluster:
            (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
            server = load_kubeconfig(tmp_path / "kubeconfig")
            client = HttpClient(server, clock=RealClock(), rng=random.Random(1), environ={})
            async with (
                client,
                port(tmp_path, authentication_client=client, authorization_client=client) as secure,
            ):
                await check(secure.port, str(cluster.token), clients)

    async def check(number: int, token: str, clients: Authority) -> None:
        ann, admin = (
            Caller(number, context=clients.issue(*names).context(tmp_path))
            for names in (("ann",), ("admin", "system:masters"))
        )
        callers = [Caller(number), Caller(number, "made-up"), Caller(number, token), ann, admin]
        codes = [[(await caller.get(path)).code for path in ("/healthz", "/metrics")] for caller in callers]
        assert codes == [[200, 403], [401, 401], [200, 200], [200, 403], [200, 200]]

    asyncio.run(run())
