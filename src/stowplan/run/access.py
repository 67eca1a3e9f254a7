"""Where the API server is: kubeconfig, --master, or the in-cluster configuration."""

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
    kubeconfig: str, master: str, journal: Journal, environ: Mapping[str, str] = os.environ
) -> Server:
    """The API server. Raises ConfigError, one line."""
    if kubeconfig:
        return _server_of_kubeconfig(kubeconfig, master)
    if master:
        return _server_at(master)
    journal.plain(
        WARNING,
        "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.",
    )
    try:
        return in_cluster(environ)
    except AccessError as error:
        reason = str(error) if all(environ.get(name) for name in _POD_VARIABLES) else _NOT_IN_CLUSTER
        journal.plain(WARNING, f"error creating inClusterConfig, falling back to default config: {reason}")
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
