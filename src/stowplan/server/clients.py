"""The address of the API server, and the clients of a process: one for each purpose, with separate limits."""

import asyncio
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from platform import machine
from typing import Any, Final

from stowplan import __version__
from stowplan.api.fielderrors import aggregate
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.client.http import (
    AccessError,
    HttpClient,
    Observer,
    Server,
    ServerAvailability,
    in_cluster,
    load_kubeconfig,
)
from stowplan.client.http.settings import Address
from stowplan.config.load import ConfigError
from stowplan.config.types import ClientConnection
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.gocompat.yamltext import YamlError, load_yaml
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import WARNING, Logger
from stowplan.scheduler.metrics import RequestMetrics
from stowplan.server.version import MACHINES, VERSION

# Where the API server is: kubeconfig, --master, or the in-cluster configuration


_NO_CONFIGURATION: Final = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)
_POD_VARIABLES: Final = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_NOT_IN_CLUSTER: Final = (
    f"unable to load in-cluster configuration, {' and '.join(_POD_VARIABLES)} must be defined"
)
_DEFAULT_QPS: Final = 5.0
_DEFAULT_BURST: Final = 10


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Address and rate limits of the API server's clients. Negative `qps`: no limit."""

    kubeconfig: str = ""
    master: str = ""
    qps: float = 50.0
    burst: int = 100
    content_type: str = ""
    accept_content_types: str = ""


def client_settings(connection: ClientConnection, master: str) -> ClientSettings:
    """The settings of a configuration; 0 means client-go's default limits.

    Raises ConfigError.
    """
    if connection.qps > 0 and connection.burst <= 0:
        raise ConfigError(
            "flags",
            "burst is required to be greater than 0 when RateLimiter is not set "
            "and QPS is set to greater than 0",
        )
    return ClientSettings(
        connection.kubeconfig,
        master,
        connection.qps or _DEFAULT_QPS,
        connection.burst or _DEFAULT_BURST,
        connection.content_type,
        connection.accept_content_types,
    )


def find_server(
    kubeconfig: str, master: str, logger: Logger, environ: Mapping[str, str] = os.environ
) -> Server:
    """The API server. Raises ConfigError, one line."""
    if kubeconfig:
        return _server_of_kubeconfig(kubeconfig, master)
    if master:
        return _server_at(master)
    logger.plain(
        WARNING,
        "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.",
    )
    try:
        return in_cluster(environ)
    except AccessError as error:
        reason = str(error) if all(environ.get(name) for name in _POD_VARIABLES) else _NOT_IN_CLUSTER
        logger.plain(WARNING, f"error creating inClusterConfig, falling back to default config: {reason}")
        raise ConfigError("client", _NO_CONFIGURATION) from None


def _server_at(master: str) -> Server:
    try:
        return Server(Address.parse(master))
    except ValueError as error:
        raise ConfigError("client", f"invalid configuration: --master: {error}") from None


def _server_of_kubeconfig(path: str, master: str) -> Server:
    try:
        os.stat(path)
    except OSError as error:
        raise ConfigError("client", f"stat {path}: {(error.strerror or str(error)).lower()}") from None
    contents = _load_yaml(path)
    if not any(contents.get(part) for part in ("clusters", "contexts", "users", "current-context")):
        if master:
            return _server_at(master)
        raise ConfigError("client", _NO_CONFIGURATION)
    current = contents.get("current-context")
    if current and current not in _names(contents.get("contexts")):
        problems = [f"context was not found for specified context: {current}"]
        if not master:
            problems.append("cluster has no server defined")
        raise ConfigError("client", f"invalid configuration: {aggregate(problems)}")
    try:
        return load_kubeconfig(path, master=master)
    except AccessError as error:
        raise ConfigError("client", f"invalid configuration: {error}") from None


def _names(entries: object) -> list[object]:
    """The names in a section of a kubeconfig."""
    return (
        [entry.get("name") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )


def _load_yaml(path: str) -> Mapping[str, Any]:
    """A kubeconfig as plain data, to report errors in client-go's words."""
    try:
        data = load_yaml(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        line = f"yaml: line {error.line}: " if isinstance(error, YamlError) and error.line else ""
        reason = getattr(error, "problem", None) or getattr(error, "strerror", None) or str(error)
        detail = f"error loading config file {quote(path)}: {line}{' '.join(str(reason).split())}"
        raise ConfigError("client", detail) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        detail = f"error loading config file {quote(path)}: expected a map with clusters, users and contexts"
        raise ConfigError("client", detail)
    return data


# One client for each purpose


DELEGATED_QPS = 200.0
DELEGATED_BURST = 400
"""Token and access reviews must not wait for each other."""


def watch_lists_wanted(gates: FeatureGates) -> bool | None:
    """Setting of the gate WatchListClient for first lists (see `HttpClient`); None if it is not set."""
    enabled = gates["WatchListClient"]
    return None if enabled and "WatchListClient" not in gates.named else enabled


@dataclass(frozen=True, slots=True)
class Clients:
    """Makes clients. The server knows them by their user agents, which end with their purpose.

    Every client has separate limits, so that a thousand events do not keep a pod from being bound, and
    nothing keeps the lease from being renewed. The reachability of a server is checked once for all its
    clients. For `streams` see `HttpClient`.
    """

    server: Server
    settings: ClientSettings
    clock: Clock
    rng: random.Random
    environ: Mapping[str, str]
    requests: RequestMetrics
    logger: Logger
    streams: bool | None = None
    counted_by: asyncio.AbstractEventLoop | None = None
    """The loop that counts requests, if clients are used in the loop of another thread."""
    _servers: dict[str, ServerAvailability] = field(default_factory=dict)

    def for_thread(self, rng: random.Random) -> "Clients":
        """The same for the event loop of another thread.

        It finds out for itself whether servers can be reached, as it must not depend on this loop, and leaves
        it to this one to log that.
        """
        return replace(self, rng=rng, logger=Logger(), counted_by=asyncio.get_running_loop(), _servers={})

    def client(
        self,
        purpose: str = "",
        *,
        timeout: Duration | None = None,
        patient: bool = False,
        may_write: Callable[[], bool] = lambda: True,
    ) -> HttpClient:
        """A client of the server the scheduler works for. Raises ConfigError.

        For `patient` and `may_write` see `HttpClient`.
        """
        settings = self.settings
        return self._new_client(
            self.server,
            settings.qps,
            settings.burst,
            purpose,
            timeout,
            patient=patient,
            may_write=may_write,
        )

    def delegate(self, kubeconfig: str) -> HttpClient | None:
        """A client for reviews of users and their rights; None if there is no server for them.

        Without a `kubeconfig` that is the API server of the cluster this process runs in, if it runs in one.
        Raises ConfigError.
        """
        try:
            server = load_kubeconfig(kubeconfig) if kubeconfig else in_cluster(self.environ)
        except AccessError as error:
            if not kubeconfig:
                return None
            raise ConfigError("client", f"failed to get delegated kubeconfig: {error}") from None
        return self._new_client(server, DELEGATED_QPS, DELEGATED_BURST, "", None)

    def availability(self, server: Server) -> ServerAvailability:
        """Reachability of a server, shared by all clients made here."""
        address = str(server.address)
        if address not in self._servers:
            self._servers[address] = ServerAvailability(
                random.Random(self.rng.getrandbits(64)), self.logger, address
            )
        return self._servers[address]

    def reachable(self) -> dict[str, bool]:
        """Which servers can be reached, by their addresses."""
        return {address: one.is_reachable for address, one in self._servers.items()}

    def _new_client(
        self,
        server: Server,
        qps: float,
        burst: int,
        purpose: str,
        timeout: Duration | None,
        *,
        patient: bool = False,
        may_write: Callable[[], bool] = lambda: True,
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
                may_write=may_write,
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
    """Our name at the API server, which also takes the first word for the manager of our writes."""
    system = f"{sys.platform}/{MACHINES.get(machine(), machine())}"
    agent = f"kube-scheduler/{VERSION} ({system}) stowplan/{__version__}"
    return f"{agent}/{purpose}" if purpose else agent
