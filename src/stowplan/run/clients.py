"""The clients of a process: one for each purpose, with limits of its own, all of one server."""

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from platform import machine

from stowplan import __version__
from stowplan.client.http import AccessError, HttpClient, Server, in_cluster, load_kubeconfig
from stowplan.clock import Clock
from stowplan.config.load import ConfigError
from stowplan.gocompat.durations import Duration
from stowplan.metrics import RequestMetrics
from stowplan.run.access import ClientSettings
from stowplan.run.version import MACHINES, VERSION


@dataclass(frozen=True, slots=True)
class Clients:
    """Makes clients. The server knows them by their user agents, which end with what they are for.

    Every client has limits of its own, so that a thousand events do not keep a pod from being bound, and
    nothing keeps the lease from being renewed. With `streams` what exists is told by a watch, not by a list.
    """

    server: Server
    settings: ClientSettings
    clock: Clock
    rng: random.Random
    environ: Mapping[str, str]
    requests: RequestMetrics
    streams: bool = True

    def client(self, purpose: str = "", *, timeout: Duration | None = None) -> HttpClient:
        """A client of the server the scheduler works for. Raises ConfigError."""
        return self._made(self.server, self.settings.qps, self.settings.burst, purpose, timeout)

    def delegate(self, kubeconfig: str) -> HttpClient | None:
        """A client to ask who somebody is and what they may do; None where nobody is to be asked.

        Without a `kubeconfig` of its own that is the API server of the cluster this process runs in, if it
        runs in one. Raises ConfigError.
        """
        try:
            server = load_kubeconfig(kubeconfig) if kubeconfig else in_cluster(self.environ)
        except AccessError as error:
            if not kubeconfig:
                return None
            raise ConfigError("client", f"failed to get delegated kubeconfig: {error}") from None
        return self._made(server, DELEGATED_QPS, DELEGATED_BURST, "", None)

    def _made(
        self, server: Server, qps: float, burst: int, purpose: str, timeout: Duration | None
    ) -> HttpClient:
        try:
            return HttpClient(
                server,
                clock=self.clock,
                rng=random.Random(self.rng.getrandbits(64)),
                qps=qps,
                burst=burst,
                user_agent=user_agent(purpose),
                timeout=timeout,
                streams=self.streams,
                environ=self.environ,
                observer=self.requests.to(server.address.authority),
            )
        except AccessError as error:
            raise ConfigError("client", str(error)) from None


DELEGATED_QPS = 200.0
DELEGATED_BURST = 400
"""Questions about callers are not to wait for each other."""


def user_agent(purpose: str = "") -> str:
    """Who we are to the API server, which also takes the first word for the manager of what we write."""
    system = f"{sys.platform}/{MACHINES.get(machine(), machine())}"
    agent = f"kube-scheduler/{VERSION} ({system}) stowplan/{__version__}"
    return f"{agent}/{purpose}" if purpose else agent
