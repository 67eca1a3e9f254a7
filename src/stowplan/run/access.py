"""Finding the API server: by kubeconfig, by address, or as a pod of its cluster."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from stowplan.api.fielderrors import aggregate
from stowplan.client.http import AccessError, Server, in_cluster, load_kubeconfig
from stowplan.client.http.settings import Address
from stowplan.config.load import ConfigError
from stowplan.config.types import ClientConnection
from stowplan.gocompat.quoting import quote
from stowplan.logs import WARNING, Journal

_NOTHING: Final = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)
_POD_VARIABLES: Final = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_NO_POD: Final = f"unable to load in-cluster configuration, {' and '.join(_POD_VARIABLES)} must be defined"
_DEFAULT_QPS: Final = 5.0
_DEFAULT_BURST: Final = 10


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How the API server is reached, and how hard it may be used. Negative `qps`: as hard as possible."""

    kubeconfig: str = ""
    master: str = ""
    qps: float = 50.0
    burst: int = 100
    content_type: str = ""
    accept_content_types: str = ""


def client_settings(connection: ClientConnection, master: str) -> ClientSettings:
    """The settings of a configuration; 0 stands for the small limits of Kubernetes clients.

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
    kubeconfig: str, master: str, journal: Journal, environ: Mapping[str, str] = os.environ
) -> Server:
    """The server that is meant. Raises ConfigError, one line."""
    if kubeconfig:
        return _by_kubeconfig(kubeconfig, master)
    if master:
        return _by_address(master)
    journal.plain(
        WARNING,
        "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.",
    )
    try:
        return in_cluster(environ)
    except AccessError as error:
        reason = str(error) if all(environ.get(name) for name in _POD_VARIABLES) else _NO_POD
        journal.plain(WARNING, f"error creating inClusterConfig, falling back to default config: {reason}")
        raise ConfigError("client", _NOTHING) from None


def _by_address(master: str) -> Server:
    try:
        return Server(Address.parse(master))
    except ValueError as error:
        raise ConfigError("client", f"invalid configuration: --master: {error}") from None


def _by_kubeconfig(path: str, master: str) -> Server:
    try:
        os.stat(path)
    except OSError as error:
        raise ConfigError("client", f"stat {path}: {(error.strerror or str(error)).lower()}") from None
    contents = _contents(path)
    if not any(contents.get(part) for part in ("clusters", "contexts", "users", "current-context")):
        if master:
            return _by_address(master)
        raise ConfigError("client", _NOTHING)
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
    """The names in a section."""
    return (
        [entry.get("name") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )


def _contents(path: str) -> Mapping[str, Any]:
    """A kubeconfig as plain data, for the mistakes that are told in Kubernetes' own words."""
    try:
        data = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"yaml: line {mark.line + 1}: " if mark is not None else ""
        reason = getattr(error, "problem", None) or getattr(error, "strerror", None) or str(error)
        detail = f"error loading config file {quote(path)}: {line}{' '.join(str(reason).split())}"
        raise ConfigError("client", detail) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        detail = f"error loading config file {quote(path)}: expected a map with clusters, users and contexts"
        raise ConfigError("client", detail)
    return data
