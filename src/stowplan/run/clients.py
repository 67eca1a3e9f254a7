"""The clients of a process: one for each purpose, with limits of its own, all of one server."""

import asyncio
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from platform import machine

from stowplan import __version__
from stowplan.client.http import (
    AccessError,
    HttpClient,
    Observer,
    Server,
    ServerAvailability,
    in_cluster,
    load_kubeconfig,
)
from stowplan.clock import Clock
from stowplan.config.load import ConfigError
from stowplan.gocompat.durations import Duration
from stowplan.logs import Journal
from stowplan.metrics import RequestMetrics
from stowplan.run.access import ClientSettings
from stowplan.run.version import MACHINES, VERSION

DELEGATED_QPS = 200.0
DELEGATED_BURST = 400
"""Questions about callers are not to wait for each other."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Makes clients. The server knows them by their user agents, which end with what they are for.

    Every client has limits of its own, so that a thousand events do not keep a pod from being bound, and
    nothing keeps the lease from being renewed. Whether a server can be reached is found out once for all its
    clients. With `streams` what exists is told by a watch, not by a list.
    """

    server: Server
    settings: ClientSettings
    clock: Clock
    rng: random.Random
    environ: Mapping[str, str]
    requests: RequestMetrics
    journal: Journal
    streams: bool = True
    counted_by: asyncio.AbstractEventLoop | None = None
    """The loop that counts requests, if clients are used in the loop of another thread."""
    _servers: dict[str, ServerAvailability] = field(default_factory=dict)

    def for_thread(self, rng: random.Random) -> "Clients":
        """The same for the event loop of another thread.

        It finds out for itself whether servers can be reached, as it must not depend on this loop, and leaves
        it to this one to log that.
        """
        return replace(self, rng=rng, journal=Journal(), counted_by=asyncio.get_running_loop(), _servers={})

    def client(
        self,
        purpose: str = "",
        *,
        timeout: Duration | None = None,
        patient: bool = False,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> HttpClient:
        """A client of the server the scheduler works for. Raises ConfigError.

        For `patient` and `may_repeat` see `HttpClient`.
        """
        settings = self.settings
        return self._made(
            self.server,
            settings.qps,
            settings.burst,
            purpose,
            timeout,
            patient=patient,
            may_repeat=may_repeat,
        )

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

    def availability(self, server: Server) -> ServerAvailability:
        """Whether a server can be reached, as all clients made here know it."""
        address = str(server.address)
        if address not in self._servers:
            self._servers[address] = ServerAvailability(
                random.Random(self.rng.getrandbits(64)), self.journal, address
            )
        return self._servers[address]

    def reachable(self) -> dict[str, bool]:
        """Which servers can be reached, by their addresses."""
        return {address: one.is_reachable for address, one in self._servers.items()}

    def _made(
        self,
        server: Server,
        qps: float,
        burst: int,
        purpose: str,
        timeout: Duration | None,
        *,
        patient: bool = False,
        may_repeat: Callable[[], bool] = lambda: True,
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
                observer=self._observer(server),
                availability=self.availability(server),
                patient=patient,
                may_repeat=may_repeat,
            )
        except AccessError as error:
            raise ConfigError("client", str(error)) from None

    def _observer(self, server: Server) -> Observer:
        observer = self.requests.to(server.address.authority)
        return observer if self.counted_by is None else _ThreadObserver(observer, self.counted_by)


class _ThreadObserver:
    """Passes what is counted in one thread on to the thread that counts: metrics have no locks."""

    def __init__(self, observer: Observer, loop: asyncio.AbstractEventLoop) -> None:
        self._observer = observer
        self._loop = loop
        self.timer = observer.timer

    def answered(self, method: str, status: int, held: float, size: int, again: bool) -> None:
        self._pass_on(self._observer.answered, method, status, held, size, again)

    def ended(self, method: str, seconds: float, size: int) -> None:
        self._pass_on(self._observer.ended, method, seconds, size)

    def streaming(self, status: int) -> None:
        self._pass_on(self._observer.streaming, status)

    def _pass_on(self, tell: Callable[..., None], *values: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(tell, *values)


def user_agent(purpose: str = "") -> str:
    """Who we are to the API server, which also takes the first word for the manager of what we write."""
    system = f"{sys.platform}/{MACHINES.get(machine(), machine())}"
    agent = f"kube-scheduler/{VERSION} ({system}) stowplan/{__version__}"
    return f"{agent}/{purpose}" if purpose else agent
