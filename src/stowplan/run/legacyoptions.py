"""What the flags of earlier releases come to: where predicates and priorities are read from, and more."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stowplan.api.fielderrors import invalid, required
from stowplan.run.flags.parser import Parsed

DEFAULT_NAMESPACE: Final = "kube-system"
_HIGHEST_PORT: Final = 65535
_WITHOUT_FILE: Final = (
    "policy-config-file",
    "policy-configmap",
    "policy-configmap-namespace",
    "use-legacy-policy-config",
    "algorithm-provider",
    "scheduler-name",
    "hard-pod-affinity-symmetric-weight",
    "lock-object-name",
    "lock-object-namespace",
)
"""Flags that count only without a --config."""


@dataclass(frozen=True, slots=True)
class ConfigMapRef:
    """A ConfigMap with a Policy."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AlgorithmSource:
    """Who says what to schedule by; at most one of these, and none for the plugins of today."""

    file: str = ""
    config_map: ConfigMapRef | None = None
    provider: str = ""


def algorithm_source(parsed: Parsed) -> AlgorithmSource:
    """What the flags name: a file goes before a provider, a ConfigMap before both unless told otherwise."""
    if parsed.text("config"):
        return AlgorithmSource()
    file, name = parsed.text("policy-config-file"), parsed.text("policy-configmap")
    if file and (not name or parsed.on("use-legacy-policy-config")):
        return AlgorithmSource(file=file)
    if name:
        namespace = parsed.text("policy-configmap-namespace") or DEFAULT_NAMESPACE
        return AlgorithmSource(config_map=ConfigMapRef(namespace, name))
    return AlgorithmSource(provider=parsed.text("algorithm-provider"))


def legacy_problems(parsed: Parsed) -> Iterator[str]:
    """What is wrong with these flags."""
    if parsed.on("use-legacy-policy-config") and not parsed.text("policy-config-file"):
        yield required("policyConfigFile", "required when --use-legacy-policy-config is true")
    weight = parsed.number("hard-pod-affinity-symmetric-weight")
    if not 0 <= weight <= 100:
        yield invalid("hardPodAffinitySymmetricWeight", weight, "not in valid range [0-100]")
    port = parsed.number("port")
    if not -1 <= port <= _HIGHEST_PORT:
        yield (
            f"--port {port} must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"
        )
    address = parsed.text("address")
    if address and not _is_address(address):
        yield f"--address {address} is an invalid IP address"


def legacy_warnings(parsed: Parsed) -> Iterator[str]:
    """What is not done as asked."""
    if parsed.given("port") and parsed.number("port") > 0:
        yield "--port has no effect: pages are served over TLS only, on --secure-port"
    if parsed.given("address") and parsed.number("port") > 0:
        yield "--address has no effect: pages are served over TLS only, on --bind-address"
    if parsed.text("config"):
        for name in _WITHOUT_FILE:
            if parsed.given(name):
                yield f"--{name} has no effect: with --config the file counts"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
